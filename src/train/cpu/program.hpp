// The compiled form of a model: a list of steps over planned memory, and the builder that writes
// it. The builder notes at which step each buffer is touched; liveness follows from that.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu/onednn.hpp"
#include "memory_plan.hpp"

namespace slipway::train::cpu {

/// A tensor in a buffer of the plan.
struct Tensor {
    dnnl::memory::desc desc;
    int buffer = -1;
};

struct Step {
    std::string name;
    std::string implementation;  ///< oneDNN's name; "" for our own code
    std::function<void(dnnl::stream&)> run;
    std::vector<int> completes;  ///< parameters whose gradient is ready after this step
};

/// A learned tensor: the layout that checkpoints use and the layout that the primitives use.
struct Parameter {
    std::string name;
    dnnl::memory::desc canonical;
    dnnl::memory::desc native;
    size_t offset = 0;  ///< in the arena, in floats; set when the program is finished
    size_t count = 0;   ///< floats it takes there, padding included
};

class ProgramBuilder {
 public:
    explicit ProgramBuilder(dnnl::engine engine) : engine_(std::move(engine)) {}
    const dnnl::engine& engine() const { return engine_; }

    /// A new tensor in a buffer of its own.
    Tensor tensor(const dnnl::memory::desc& desc);
    /// The memory of a tensor for the step that is added next; its address is set by finish().
    dnnl::memory use(const Tensor& tensor);

    /// Declare a learned tensor; returns its number.
    int parameter(const std::string& name, const dnnl::memory::dims& dims,
                  const dnnl::memory::desc& native);
    const Parameter& parameter(int id) const { return parameters_[id]; }
    dnnl::memory use_value(int id);
    dnnl::memory use_gradient(int id);

    using Arguments = std::unordered_map<int, dnnl::memory>;
    /// Append a primitive; its scratch memory is planned with the rest.
    template <typename Description>
    void add(const std::string& name, const dnnl::primitive& primitive,
             const Description& description, Arguments arguments, std::vector<int> completes = {}) {
        if (description.scratchpad_desc().get_size() > 0)
            arguments[DNNL_ARG_SCRATCHPAD] = use(tensor(description.scratchpad_desc()));
        append(name, description.impl_info_str(), primitive, std::move(arguments),
               std::move(completes));
    }
    /// Append a step of our own code.
    void add_host(const std::string& name, std::function<void(dnnl::stream&)> run);

    /// The tensor in the wanted layout: itself, or a reordered copy (one step more).
    Tensor in_layout(const Tensor& tensor, const dnnl::memory::desc& wanted,
                     const std::string& name);
    /// The same for a parameter's value.
    dnnl::memory value_in_layout(int id, const dnnl::memory::desc& wanted, const std::string& name);
    /// Append the reorder of `from` into the arena's gradient of a parameter.
    void store_gradient(const Tensor& from, int id, const std::string& name);

    int next_step() const { return static_cast<int>(steps_.size()); }

 private:
    friend class Executor;
    void append(const std::string& name, const char* implementation,
                const dnnl::primitive& primitive, Arguments arguments, std::vector<int> completes);
    void reorder(const dnnl::memory& from, const dnnl::memory& to, const std::string& name,
                 std::vector<int> completes);

    struct ParameterUse {
        dnnl::memory memory;
        int id;
    };
    dnnl::engine engine_;
    std::vector<Step> steps_;
    std::vector<BufferRequest> buffers_;
    std::vector<std::pair<dnnl::memory, int>> uses_;
    std::vector<Parameter> parameters_;
    std::vector<ParameterUse> value_uses_;
    std::vector<ParameterUse> gradient_uses_;
};

}  // namespace slipway::train::cpu
