// Where each tensor of a step lies: tensors that never live at the same time share memory.
#pragma once

#include <cstddef>
#include <vector>

namespace slipway::train {

/// A buffer that lives from step `first` to step `last`, both included.
struct BufferRequest {
    size_t size_bytes = 0;
    int first = 0;
    int last = 0;
};

struct MemoryPlan {
    std::vector<size_t> offsets;  ///< one a request, multiples of kPlanAlignment
    size_t total_bytes = 0;
};

inline constexpr size_t kPlanAlignment = 64;

/// Place every buffer, largest first, in the lowest gap that is free for its whole life.
/// Pure. Cost: O(n²), n being tens to a few thousand.
MemoryPlan plan_memory(const std::vector<BufferRequest>& requests);

}  // namespace slipway::train
