// Operators on oneDNN: each appends its forward steps and, later, its backward steps to a program.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/program.hpp"
#include "graph.hpp"

namespace slipway::train::cpu {

class Operator {
 public:
    virtual ~Operator() = default;
    /// Append the forward steps; returns the output, in the layout that the primitive prefers.
    virtual Tensor forward(ProgramBuilder& program, const Tensor& source) = 0;
    /// Append the backward steps; returns the gradient of the source, or an empty tensor if it is
    /// not wanted.
    virtual Tensor backward(ProgramBuilder& program, const Tensor& gradient,
                            bool want_source_gradient) = 0;
};

/// Make the operator of a node for a batch of this size.
std::unique_ptr<Operator> make_operator(const Node& node, int64_t batch);
std::unique_ptr<Operator> make_convolution(const Node& node, int64_t batch);
std::unique_ptr<Operator> make_max_pool(const Node& node, int64_t batch);
std::unique_ptr<Operator> make_relu(const Node& node);
std::unique_ptr<Operator> make_inner_product(const Node& node, int64_t batch);

/// {batch, shape...}
dnnl::memory::dims with_batch(int64_t batch, const Shape& shape);

/// Labels in, loss out, for one batch. Rows from `valid` on are padding: they have no loss and no
/// gradient.
struct LossState {
    std::vector<int32_t> labels;
    int64_t valid = 0;
    float scale = 1;  ///< of the gradient: one over the images of the global batch
    double loss_sum = 0;
    int64_t correct = 0;
};

/// Append softmax cross-entropy: fills `state` and returns the gradient of the logits.
Tensor append_loss(ProgramBuilder& program, const Tensor& logits, LossState& state);

}  // namespace slipway::train::cpu
