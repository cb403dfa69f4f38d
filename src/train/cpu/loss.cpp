// Softmax cross-entropy with its gradient, in one pass over the logits.
// Must not: average over ranks; the scale of the gradient says over how many images.
#include <algorithm>
#include <cmath>

#include "cpu/operators.hpp"

namespace slipway::train::cpu {

namespace {

void cross_entropy(const float* logits, float* gradient, int64_t rows, int64_t classes,
                   LossState& state) {
    state.loss_sum = 0;
    state.correct = 0;
    std::fill(gradient + state.valid * classes, gradient + rows * classes, 0.0f);
    for (int64_t row = 0; row < state.valid; ++row) {
        const float* x = logits + row * classes;
        float* g = gradient + row * classes;
        const int64_t label = state.labels[row];
        const float* top = std::max_element(x, x + classes);
        double total = 0;
        for (int64_t i = 0; i < classes; ++i) {
            g[i] = std::exp(x[i] - *top);
            total += g[i];
        }
        state.loss_sum += std::log(total) - (x[label] - *top);
        state.correct += top - x == label;
        const float factor = static_cast<float>(state.scale / total);
        for (int64_t i = 0; i < classes; ++i) g[i] *= factor;
        g[label] -= state.scale;
    }
}

}  // namespace

Tensor append_loss(ProgramBuilder& program, const Tensor& logits, LossState& state) {
    const auto dims = logits.desc.dims();
    Tensor plain = program.in_layout(logits, plain_desc(dims), "logits reorder");
    Tensor gradient = program.tensor(plain_desc(dims));
    dnnl::memory in = program.use(plain);
    dnnl::memory out = program.use(gradient);
    program.add_host("loss", [in, out, dims, &state](dnnl::stream& stream) {
        stream.wait();
        cross_entropy(static_cast<const float*>(in.get_data_handle()),
                      static_cast<float*>(out.get_data_handle()), dims[0], dims[1], state);
    });
    return gradient;
}

}  // namespace slipway::train::cpu
