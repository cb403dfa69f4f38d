// Sums of whole arenas.
#pragma once

#include <cstddef>

namespace slipway::train {

/// out[i] = Σ over r of arenas[r·stride + i], in the order of the ranks: every rank that computes
/// an element gets the same bits.
void sum_arenas(float* out, const float* arenas, size_t stride, size_t ranks, size_t count);

}  // namespace slipway::train
