// The update of one step.
// Must not: depend on the number of threads; every element is computed alone.
#include "optim/sgd.hpp"

namespace slipway::train {

void sgd_step(float* __restrict values, float* __restrict velocity,
              const float* __restrict gradients, size_t count, const SgdOptions& options) {
    const float rate = options.learning_rate;
    const float momentum = options.momentum;
    const float decay = options.weight_decay;
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; ++i) {
        const float v = momentum * velocity[i] + gradients[i] + decay * values[i];
        velocity[i] = v;
        values[i] -= rate * v;
    }
}

}  // namespace slipway::train
