// Cuts the gradient arena into buckets.
// Must not: reduce anything.
#include "strategy/bucket_plan.hpp"

namespace slipway::train {

std::vector<Bucket> plan_buckets(const std::vector<size_t>& counts, size_t bucket_floats) {
    std::vector<Bucket> buckets;
    size_t first = 0, end = 0;
    for (size_t count : counts) {
        end += count;
        if (end - first < bucket_floats) continue;
        buckets.push_back({first, end});
        first = end;
    }
    if (end == first) return buckets;
    if (!buckets.empty() && end - first < bucket_floats / 2) {
        buckets.back().last = end;
    } else {
        buckets.push_back({first, end});
    }
    return buckets;
}

}  // namespace slipway::train
