// The operators with learned weights: convolution and inner product.
// Must not: update weights (the optimizer does) or reduce gradients (the strategy does).
#include "cpu/operators.hpp"

namespace slipway::train::cpu {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

// The two operators differ in the words of their primitives only.
struct ConvolutionKind {
    using Forward = dnnl::convolution_forward;
    using BackwardData = dnnl::convolution_backward_data;
    using BackwardWeights = dnnl::convolution_backward_weights;
    dnnl::memory::dims strides, padding;

    explicit ConvolutionKind(const Node& node)
        : strides{node.stride, node.stride}, padding{node.padding, node.padding} {}

    template <typename... Descs>
    auto forward(const dnnl::engine& engine, const Descs&... descs) const {
        return choose<Forward>(engine, prop_kind::forward_training, algorithm::convolution_direct,
                               descs..., strides, padding, padding);
    }
    template <typename Operation, typename Hint, typename... Descs>
    auto backward(const dnnl::engine& engine, const Hint& hint, const Descs&... descs) const {
        return choose_backward<Operation>(engine, hint, algorithm::convolution_direct, descs...,
                                          strides, padding, padding);
    }
};

struct InnerProductKind {
    using Forward = dnnl::inner_product_forward;
    using BackwardData = dnnl::inner_product_backward_data;
    using BackwardWeights = dnnl::inner_product_backward_weights;

    explicit InnerProductKind(const Node&) {}

    template <typename... Descs>
    auto forward(const dnnl::engine& engine, const Descs&... descs) const {
        return choose<Forward>(engine, prop_kind::forward_training, descs...);
    }
    template <typename Operation, typename Hint, typename... Descs>
    auto backward(const dnnl::engine& engine, const Hint& hint, const Descs&... descs) const {
        return choose_backward<Operation>(engine, hint, descs...);
    }
};

template <typename Kind>
class Weighted final : public Operator {
 public:
    Weighted(const Node& node, int64_t batch)
        : name_(node.name),
          kind_(node),
          source_dims_(with_batch(batch, node.input)),
          output_dims_(with_batch(batch, node.output)),
          weight_dims_(weight_of(node).dims),
          bias_dims_(bias_of(node).dims) {}

    Tensor forward(ProgramBuilder& program, const Tensor& source) override {
        forward_ = kind_.forward(program.engine(), any_desc(source_dims_), any_desc(weight_dims_),
                                 plain_desc(bias_dims_), any_desc(output_dims_));
        source_ = program.in_layout(source, forward_.src_desc(), name_ + " input reorder");
        weight_ = program.parameter(name_ + ".weight", weight_dims_, forward_.weights_desc());
        bias_ = program.parameter(name_ + ".bias", bias_dims_, plain_desc(bias_dims_));
        Tensor output = program.tensor(forward_.dst_desc());
        program.add(name_, typename Kind::Forward(forward_), forward_,
                    {{DNNL_ARG_SRC, program.use(source_)},
                     {DNNL_ARG_WEIGHTS, program.use_value(weight_)},
                     {DNNL_ARG_BIAS, program.use_value(bias_)},
                     {DNNL_ARG_DST, program.use(output)}});
        return output;
    }

    Tensor backward(ProgramBuilder& program, const Tensor& gradient, bool wanted) override {
        backward_weights(program, gradient);
        if (!wanted) return {};
        return backward_data(program, gradient);
    }

 private:
    void backward_weights(ProgramBuilder& program, const Tensor& gradient) {
        auto description = kind_.template backward<typename Kind::BackwardWeights>(
            program.engine(), forward_, any_desc(source_dims_), any_desc(weight_dims_),
            plain_desc(bias_dims_), any_desc(output_dims_));
        Tensor source =
            program.in_layout(source_, description.src_desc(), name_ + " saved input reorder");
        Tensor matched =
            program.in_layout(gradient, description.diff_dst_desc(), name_ + " gradient reorder");
        const bool direct = description.diff_weights_desc() == program.parameter(weight_).native;
        Tensor own;
        if (!direct) own = program.tensor(description.diff_weights_desc());
        dnnl::memory target = direct ? program.use_gradient(weight_) : program.use(own);
        std::vector<int> completes{bias_};
        if (direct) completes.push_back(weight_);
        program.add(name_ + " weight gradient", typename Kind::BackwardWeights(description),
                    description,
                    {{DNNL_ARG_SRC, program.use(source)},
                     {DNNL_ARG_DIFF_DST, program.use(matched)},
                     {DNNL_ARG_DIFF_WEIGHTS, target},
                     {DNNL_ARG_DIFF_BIAS, program.use_gradient(bias_)}},
                    completes);
        if (!direct) program.store_gradient(own, weight_, name_ + " weight gradient reorder");
    }

    Tensor backward_data(ProgramBuilder& program, const Tensor& gradient) {
        auto description = kind_.template backward<typename Kind::BackwardData>(
            program.engine(), forward_, any_desc(source_dims_), any_desc(weight_dims_),
            any_desc(output_dims_));
        Tensor matched =
            program.in_layout(gradient, description.diff_dst_desc(), name_ + " gradient reorder");
        dnnl::memory weights =
            program.value_in_layout(weight_, description.weights_desc(), name_ + " weight reorder");
        Tensor output = program.tensor(description.diff_src_desc());
        program.add(name_ + " backward", typename Kind::BackwardData(description), description,
                    {{DNNL_ARG_DIFF_DST, program.use(matched)},
                     {DNNL_ARG_WEIGHTS, weights},
                     {DNNL_ARG_DIFF_SRC, program.use(output)}});
        return output;
    }

    std::string name_;
    Kind kind_;
    dnnl::memory::dims source_dims_, output_dims_, weight_dims_, bias_dims_;
    int weight_ = -1;
    int bias_ = -1;
    Tensor source_;
    typename Kind::Forward::primitive_desc forward_;
};

}  // namespace

std::unique_ptr<Operator> make_convolution(const Node& node, int64_t batch) {
    return std::make_unique<Weighted<ConvolutionKind>>(node, batch);
}

std::unique_ptr<Operator> make_inner_product(const Node& node, int64_t batch) {
    return std::make_unique<Weighted<InnerProductKind>>(node, batch);
}

}  // namespace slipway::train::cpu
