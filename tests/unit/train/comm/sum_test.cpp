// The sum of the shared-memory reduction.
// Must not: share memory.
#include "comm/sum.hpp"

#include <vector>

#include "catch.hpp"

TEST_CASE("arenas are summed in the order of the ranks") {
    for (size_t ranks : {1u, 2u, 3u, 5u}) {
        const size_t stride = 5008, count = 5001;
        std::vector<float> arenas(ranks * stride), out(count, -1);
        for (size_t i = 0; i < arenas.size(); ++i) arenas[i] = 0.1f * static_cast<float>(i % 977);
        slipway::train::sum_arenas(out.data(), arenas.data(), stride, ranks, count);
        for (size_t i = 0; i < count; ++i) {
            float expected = arenas[i];
            for (size_t rank = 1; rank < ranks; ++rank) expected += arenas[rank * stride + i];
            REQUIRE(out[i] == expected);
        }
    }
}
