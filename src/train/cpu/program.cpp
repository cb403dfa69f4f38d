// Appends steps, notes when each buffer is touched, and inserts reorders where layouts differ.
// Must not: decide what a model computes (operators do) or place buffers (the planner does).
#include "cpu/program.hpp"

namespace slipway::train::cpu {

Tensor ProgramBuilder::tensor(const dnnl::memory::desc& desc) {
    buffers_.push_back({desc.get_size(), next_step(), next_step()});
    return {desc, static_cast<int>(buffers_.size()) - 1};
}

dnnl::memory ProgramBuilder::use(const Tensor& tensor) {
    buffers_[tensor.buffer].last = next_step();
    dnnl::memory memory(tensor.desc, engine_, DNNL_MEMORY_NONE);
    uses_.emplace_back(memory, tensor.buffer);
    return memory;
}

int ProgramBuilder::parameter(const std::string& name, const dnnl::memory::dims& dims,
                              const dnnl::memory::desc& native) {
    parameters_.push_back({name, plain_desc(dims), native, 0, 0});
    return static_cast<int>(parameters_.size()) - 1;
}

dnnl::memory ProgramBuilder::use_value(int id) {
    dnnl::memory memory(parameters_[id].native, engine_, DNNL_MEMORY_NONE);
    value_uses_.push_back({memory, id});
    return memory;
}

dnnl::memory ProgramBuilder::use_gradient(int id) {
    dnnl::memory memory(parameters_[id].native, engine_, DNNL_MEMORY_NONE);
    gradient_uses_.push_back({memory, id});
    return memory;
}

void ProgramBuilder::append(const std::string& name, const char* implementation,
                            const dnnl::primitive& primitive, Arguments arguments,
                            std::vector<int> completes) {
    auto run = [primitive, arguments = std::move(arguments)](dnnl::stream& stream) {
        primitive.execute(stream, arguments);
    };
    steps_.push_back({name, implementation, std::move(run), std::move(completes)});
}

void ProgramBuilder::add_host(const std::string& name, std::function<void(dnnl::stream&)> run) {
    steps_.push_back({name, "", std::move(run), {}});
}

void ProgramBuilder::reorder(const dnnl::memory& from, const dnnl::memory& to,
                             const std::string& name, std::vector<int> completes) {
    dnnl::reorder::primitive_desc description(from, to, planned_scratch());
    add(name, dnnl::reorder(description), description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
        std::move(completes));
}

Tensor ProgramBuilder::in_layout(const Tensor& from, const dnnl::memory::desc& wanted,
                                 const std::string& name) {
    if (from.desc == wanted) return from;
    Tensor to = tensor(wanted);
    dnnl::memory source = use(from);
    reorder(source, use(to), name, {});
    return to;
}

dnnl::memory ProgramBuilder::value_in_layout(int id, const dnnl::memory::desc& wanted,
                                             const std::string& name) {
    if (parameters_[id].native == wanted) return use_value(id);
    Tensor to = tensor(wanted);
    reorder(use_value(id), use(to), name, {});
    return use(to);
}

void ProgramBuilder::store_gradient(const Tensor& from, int id, const std::string& name) {
    dnnl::memory source = use(from);
    reorder(source, use_gradient(id), name, {id});
}

}  // namespace slipway::train::cpu
