// Stochastic gradient descent with momentum, over whole arenas.
#pragma once

#include <cstddef>

namespace slipway::train {

struct SgdOptions {
    float learning_rate = 0.05f;
    float momentum = 0.9f;
    float weight_decay = 0;
};

/// v ← momentum·v + g + decay·w;  w ← w − rate·v.  Layout padding is zero and stays zero.
void sgd_step(float* values, float* velocity, const float* gradients, size_t count,
              const SgdOptions& options);

}  // namespace slipway::train
