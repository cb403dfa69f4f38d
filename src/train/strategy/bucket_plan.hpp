// Which stretches of the gradient arena are reduced together.
#pragma once

#include <cstddef>
#include <vector>

namespace slipway::train {

/// [first, last) of the arena, in floats.
struct Bucket {
    size_t first = 0;
    size_t last = 0;
};

/// Cut the arena, which is in backward order, after the parameter that fills a bucket; a tail
/// smaller than half a bucket joins the one before. Pure. `counts`: floats of each slot.
std::vector<Bucket> plan_buckets(const std::vector<size_t>& counts, size_t bucket_floats);

}  // namespace slipway::train
