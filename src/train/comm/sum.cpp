// The inner loop of the shared-memory reduction.
// Must not: synchronise.
#include "comm/sum.hpp"

#include <algorithm>
#include <cstring>

namespace slipway::train {

namespace {

constexpr size_t kBlock = 2048;  // floats: the partial sums stay in the first-level cache

}  // namespace

void sum_arenas(float* __restrict out, const float* __restrict arenas, size_t stride, size_t ranks,
                size_t count) {
    for (size_t first = 0; first < count; first += kBlock) {
        const size_t size = std::min(kBlock, count - first);
        float* block = out + first;
        const float* source = arenas + first;
        if (ranks == 1) {
            std::memcpy(block, source, size * sizeof(float));
            continue;
        }
        const float* second = source + stride;
        for (size_t i = 0; i < size; ++i) block[i] = source[i] + second[i];
        for (size_t rank = 2; rank < ranks; ++rank) {
            const float* next = source + rank * stride;
            for (size_t i = 0; i < size; ++i) block[i] += next[i];
        }
    }
}

}  // namespace slipway::train
