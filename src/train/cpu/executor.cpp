// Walks the graph forward and backward once to compile it, then runs the steps.
// Must not: know ranks, epochs or optimizers.
#include "cpu/executor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "slipway/base/error.hpp"

namespace slipway::train::cpu {

namespace {

constexpr size_t kSlotAlignment = 16;  // floats: one cache line

// Strides and inner blocks: what decides where each element lies.
std::string layout_bytes(const dnnl::memory::desc& desc) {
    std::string text = std::to_string(desc.get_size());
#if DNNL_VERSION_MAJOR >= 3
    for (auto value : desc.get_strides()) text += fmt::format(",{}", value);
    for (auto value : desc.get_inner_blks()) text += fmt::format("b{}", value);
    for (auto value : desc.get_inner_idxs()) text += fmt::format("i{}", value);
#else
    const auto& blocking = desc.data.format_desc.blocking;
    for (int i = 0; i < desc.data.ndims; ++i) text += fmt::format(",{}", blocking.strides[i]);
    for (int i = 0; i < blocking.inner_nblks; ++i)
        text += fmt::format("b{}i{}", blocking.inner_blks[i], blocking.inner_idxs[i]);
#endif
    return text;
}

}  // namespace

Executor::Executor(const Graph& graph, const Options& options)
    : engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      program_(engine_),
      loss_(std::make_unique<LossState>()) {
    try {
        compile(graph, options);
        place_parameters();
        place_buffers();
    } catch (const dnnl::error& error) {
        throw Error(ErrorKind::unsupported,
                    "oneDNN cannot compile model " + graph.name() + ": " + error.message)
            .note("batch of " + std::to_string(options.batch) + ", images of " +
                  shape_text(graph.input()));
    }
}

void Executor::compile(const Graph& graph, const Options& options) {
    loss_->labels.resize(options.batch);
    Tensor source = program_.tensor(plain_desc(with_batch(options.batch, graph.input())));
    input_ = program_.use(source);
    Tensor current = source;
    for (const Node& node : graph.nodes()) {
        operators_.push_back(make_operator(node, options.batch));
        current = operators_.back()->forward(program_, current);
    }
    Tensor gradient = append_loss(program_, current, *loss_);
    forward_end_ = program_.steps_.size();

    for (size_t i = operators_.size(); i-- > 0;) {
        const bool wanted = i > 0 || options.input_gradient;
        gradient = operators_[i]->backward(program_, gradient, wanted);
    }
    if (options.input_gradient) {
        Tensor plain = program_.in_layout(gradient, source.desc, "input gradient reorder");
        input_gradient_ = program_.use(plain);
    }
}

void Executor::place_parameters() {
    ready_after_.assign(program_.steps_.size(), 0);
    for (size_t step = 0; step < program_.steps_.size(); ++step) {
        for (int id : program_.steps_[step].completes) {
            Parameter& parameter = program_.parameters_[id];
            parameter.offset = arena_count_;
            const size_t floats = parameter.native.get_size() / sizeof(float);
            parameter.count = (floats + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
            arena_count_ += parameter.count;
            slots_.push_back(
                {parameter.name, parameter.canonical.dims(), parameter.offset, parameter.count});
            slot_parameter_.push_back(id);
            layout_text_ += parameter.name + ":" + layout_bytes(parameter.native) + ";";
        }
        ready_after_[step] = arena_count_;
    }
    if (slots_.size() != program_.parameters_.size())
        throw Error(ErrorKind::internal, "a parameter has no gradient in the compiled model");
}

void Executor::place_buffers() {
    MemoryPlan plan = plan_memory(program_.buffers_);
    planned_bytes_ = plan.total_bytes;
    const size_t size = std::max(plan.total_bytes, kPlanAlignment);
    workspace_.reset(static_cast<std::byte*>(std::aligned_alloc(kPlanAlignment, size)));
    if (!workspace_)
        throw Error(ErrorKind::io, "cannot allocate " + std::to_string(size) +
                                       " bytes for the model's activations")
            .hint("use a smaller --batch-size");
    std::memset(workspace_.get(), 0, size);
    for (auto& [memory, buffer] : program_.uses_)
        memory.set_data_handle(workspace_.get() + plan.offsets[buffer]);
}

void Executor::bind(float* values, float* gradients) {
    for (auto& use : program_.value_uses_)
        use.memory.set_data_handle(values + program_.parameters_[use.id].offset);
    for (auto& use : program_.gradient_uses_)
        use.memory.set_data_handle(gradients + program_.parameters_[use.id].offset);
}

void Executor::write_parameter(float* arena, size_t slot, const float* canonical) {
    const Parameter& parameter = program_.parameters_[slot_parameter_[slot]];
    dnnl::memory from(parameter.canonical, engine_, const_cast<float*>(canonical));
    dnnl::memory to(parameter.native, engine_, arena + parameter.offset);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
}

void Executor::read_parameter(const float* arena, size_t slot, float* canonical) {
    const Parameter& parameter = program_.parameters_[slot_parameter_[slot]];
    dnnl::memory from(parameter.native, engine_, const_cast<float*>(arena) + parameter.offset);
    dnnl::memory to(parameter.canonical, engine_, canonical);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
}

float* Executor::input() { return static_cast<float*>(input_.get_data_handle()); }

const float* Executor::input_gradient() const {
    return static_cast<const float*>(input_gradient_.get_data_handle());
}

std::vector<PrimitiveInfo> Executor::primitives() const {
    std::vector<PrimitiveInfo> list;
    for (const Step& step : program_.steps_)
        if (!step.implementation.empty()) list.push_back({step.name, step.implementation});
    return list;
}

void Executor::forward() {
    for (size_t i = 0; i < forward_end_; ++i) program_.steps_[i].run(stream_);
    stream_.wait();
}

void Executor::backward(const std::function<void(size_t end)>& ready) {
    for (size_t i = forward_end_; i < program_.steps_.size(); ++i) {
        program_.steps_[i].run(stream_);
        if (program_.steps_[i].completes.empty()) continue;
        stream_.wait();
        ready(ready_after_[i]);
    }
    stream_.wait();
}

}  // namespace slipway::train::cpu
