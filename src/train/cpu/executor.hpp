// Compiles a graph for one batch size and runs it, forward and backward.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpu/operators.hpp"
#include "cpu/program.hpp"
#include "graph.hpp"
#include "slipway/train/train.hpp"

namespace slipway::train::cpu {

/// Where a parameter's gradient lies in the arena; the arena is in backward order, so that what is
/// ready first lies first.
struct ArenaSlot {
    std::string name;
    std::vector<int64_t> dims;  ///< canonical
    size_t offset = 0;          ///< floats
    size_t count = 0;           ///< floats, padding included
};

class Executor {
 public:
    struct Options {
        int64_t batch = 64;
        bool input_gradient = false;  ///< also compute the gradient of the input (for tests)
    };
    Executor(const Graph& graph, const Options& options);

    /// Floats that the parameters take in the layouts that were chosen, padding included.
    size_t arena_count() const { return arena_count_; }
    const std::vector<ArenaSlot>& slots() const { return slots_; }
    /// A text that is equal on two ranks if and only if their arenas have the same layout.
    const std::string& layout_text() const { return layout_text_; }
    size_t planned_bytes() const { return planned_bytes_; }
    std::vector<PrimitiveInfo> primitives() const;

    /// Say where parameters and gradients are: two arenas of arena_count() floats, which outlive
    /// the executor.
    void bind(float* values, float* gradients);
    /// Copy a parameter from or to its canonical layout.
    void write_parameter(float* arena, size_t slot, const float* canonical);
    void read_parameter(const float* arena, size_t slot, float* canonical);

    /// [batch, channels, height, width], to be filled before forward().
    float* input();
    LossState& loss() { return *loss_; }
    const float* input_gradient() const;

    /// Run the forward steps and the loss.
    void forward();
    /// Run the backward steps; `ready(end)` is told when the gradients in [0, end) of the arena
    /// are complete.
    void backward(const std::function<void(size_t end)>& ready);

 private:
    void compile(const Graph& graph, const Options& options);
    void place_parameters();
    void place_buffers();

    dnnl::engine engine_;
    dnnl::stream stream_;
    ProgramBuilder program_;
    std::unique_ptr<LossState> loss_;
    std::vector<std::unique_ptr<Operator>> operators_;
    size_t forward_end_ = 0;
    std::vector<size_t> ready_after_;  ///< per step: gradients below this arena offset are complete
    size_t arena_count_ = 0;
    std::vector<ArenaSlot> slots_;
    std::vector<int> slot_parameter_;
    std::string layout_text_;
    size_t planned_bytes_ = 0;
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> workspace_;
    dnnl::memory input_;
    dnnl::memory input_gradient_;
};

}  // namespace slipway::train::cpu
