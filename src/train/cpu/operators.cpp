// Makes operators from nodes; holds the two small ones, ReLU and max pooling.
// Must not: append steps in an order of its own (the executor walks the graph).
#include "cpu/operators.hpp"

#include "slipway/base/error.hpp"

namespace slipway::train::cpu {

dnnl::memory::dims with_batch(int64_t batch, const Shape& shape) {
    dnnl::memory::dims dims{batch};
    dims.insert(dims.end(), shape.begin(), shape.end());
    return dims;
}

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

// In place in both directions: nobody needs the value before ReLU, since the backward pass is
// computed from the value after it.
class Relu final : public Operator {
 public:
    explicit Relu(std::string name) : name_(std::move(name)) {}

    Tensor forward(ProgramBuilder& program, const Tensor& source) override {
        data_ = source;
        const auto kind = algorithm::eltwise_relu_use_dst_for_bwd;
#if DNNL_VERSION_MAJOR >= 3
        forward_ = choose<dnnl::eltwise_forward>(program.engine(), prop_kind::forward_training,
                                                 kind, source.desc, source.desc, 0.f, 0.f);
#else
        forward_ = choose<dnnl::eltwise_forward>(program.engine(), prop_kind::forward_training,
                                                 kind, source.desc, 0.f, 0.f);
#endif
        dnnl::memory data = program.use(source);
        program.add(name_, dnnl::eltwise_forward(forward_), forward_,
                    {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}});
        return source;
    }

    Tensor backward(ProgramBuilder& program, const Tensor& gradient, bool) override {
        // A gradient whose layout differs from the data's would fall to a reference
        // implementation.
        Tensor matched = program.in_layout(gradient, data_.desc, name_ + " gradient reorder");
        const auto kind = algorithm::eltwise_relu_use_dst_for_bwd;
#if DNNL_VERSION_MAJOR >= 3
        auto description = choose_backward<dnnl::eltwise_backward>(
            program.engine(), forward_, kind, data_.desc, data_.desc, data_.desc, 0.f, 0.f);
#else
        auto description = choose_backward<dnnl::eltwise_backward>(
            program.engine(), forward_, kind, data_.desc, data_.desc, 0.f, 0.f);
#endif
        dnnl::memory data = program.use(data_);
        dnnl::memory diff = program.use(matched);
        program.add(name_ + " backward", dnnl::eltwise_backward(description), description,
                    {{DNNL_ARG_DST, data}, {DNNL_ARG_DIFF_DST, diff}, {DNNL_ARG_DIFF_SRC, diff}});
        return matched;
    }

 private:
    std::string name_;
    Tensor data_;
    dnnl::eltwise_forward::primitive_desc forward_;
};

class MaxPool final : public Operator {
 public:
    MaxPool(const Node& node, int64_t batch) : node_(node), batch_(batch) {}

    Tensor forward(ProgramBuilder& program, const Tensor& source) override {
        source_desc_ = source.desc;
        const auto wanted = any_desc(with_batch(batch_, node_.output));
#if DNNL_VERSION_MAJOR >= 3
        forward_ = choose<dnnl::pooling_forward>(program.engine(), prop_kind::forward_training,
                                                 algorithm::pooling_max, source.desc, wanted,
                                                 strides_, kernel_, none_, none_, none_);
#else
        forward_ = choose<dnnl::pooling_forward>(program.engine(), prop_kind::forward_training,
                                                 algorithm::pooling_max, source.desc, wanted,
                                                 strides_, kernel_, none_, none_);
#endif
        Tensor output = program.tensor(forward_.dst_desc());
        workspace_ = program.tensor(forward_.workspace_desc());
        program.add(node_.name, dnnl::pooling_forward(forward_), forward_,
                    {{DNNL_ARG_SRC, program.use(source)},
                     {DNNL_ARG_DST, program.use(output)},
                     {DNNL_ARG_WORKSPACE, program.use(workspace_)}});
        return output;
    }

    Tensor backward(ProgramBuilder& program, const Tensor& gradient, bool wanted) override {
        if (!wanted) return {};
#if DNNL_VERSION_MAJOR >= 3
        auto description = choose_backward<dnnl::pooling_backward>(
            program.engine(), forward_, algorithm::pooling_max, source_desc_, forward_.dst_desc(),
            strides_, kernel_, none_, none_, none_);
#else
        auto description = choose_backward<dnnl::pooling_backward>(
            program.engine(), forward_, algorithm::pooling_max, source_desc_, forward_.dst_desc(),
            strides_, kernel_, none_, none_);
#endif
        Tensor matched = program.in_layout(gradient, description.diff_dst_desc(),
                                           node_.name + " gradient reorder");
        Tensor output = program.tensor(description.diff_src_desc());
        program.add(node_.name + " backward", dnnl::pooling_backward(description), description,
                    {{DNNL_ARG_DIFF_DST, program.use(matched)},
                     {DNNL_ARG_DIFF_SRC, program.use(output)},
                     {DNNL_ARG_WORKSPACE, program.use(workspace_)}});
        return output;
    }

 private:
    Node node_;
    int64_t batch_;
    dnnl::memory::dims strides_{node_.stride, node_.stride};
    dnnl::memory::dims kernel_{node_.kernel, node_.kernel};
    dnnl::memory::dims none_{0, 0};
    dnnl::memory::desc source_desc_;
    Tensor workspace_;
    dnnl::pooling_forward::primitive_desc forward_;
};

}  // namespace

std::unique_ptr<Operator> make_relu(const Node& node) { return std::make_unique<Relu>(node.name); }

std::unique_ptr<Operator> make_max_pool(const Node& node, int64_t batch) {
    return std::make_unique<MaxPool>(node, batch);
}

std::unique_ptr<Operator> make_operator(const Node& node, int64_t batch) {
    switch (node.kind) {
        case OpKind::convolution:
            return make_convolution(node, batch);
        case OpKind::max_pool:
            return make_max_pool(node, batch);
        case OpKind::relu:
            return make_relu(node);
        case OpKind::inner_product:
            return make_inner_product(node, batch);
    }
    throw Error(ErrorKind::internal, "operator of an unknown kind: " + node.name);
}

}  // namespace slipway::train::cpu
