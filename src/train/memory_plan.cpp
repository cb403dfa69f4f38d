// The memory planner: liveness intervals to offsets in one arena.
// Must not: allocate the arena or know what the buffers hold.
#include "memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace slipway::train {

namespace {

size_t aligned(size_t size) {
    return (size + kPlanAlignment - 1) / kPlanAlignment * kPlanAlignment;
}

bool live_together(const BufferRequest& a, const BufferRequest& b) {
    return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferRequest>& requests) {
    MemoryPlan plan;
    plan.offsets.assign(requests.size(), 0);
    std::vector<size_t> order(requests.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return requests[a].size_bytes > requests[b].size_bytes;
    });

    std::vector<size_t> placed;  // sorted by offset
    for (size_t index : order) {
        const size_t size = aligned(requests[index].size_bytes);
        size_t offset = 0;
        for (size_t other : placed) {
            if (!live_together(requests[index], requests[other])) continue;
            if (plan.offsets[other] >= offset + size) break;  // the gap below `other` is enough
            offset = std::max(offset, plan.offsets[other] + aligned(requests[other].size_bytes));
        }
        plan.offsets[index] = offset;
        plan.total_bytes = std::max(plan.total_bytes, offset + size);
        auto place = std::upper_bound(placed.begin(), placed.end(), index, [&](size_t a, size_t b) {
            return plan.offsets[a] < plan.offsets[b];
        });
        placed.insert(place, index);
    }
    return plan;
}

}  // namespace slipway::train
