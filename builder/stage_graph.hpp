// The stages of a recipe as a graph: where each begins, which one is asked for, which ones it
// needs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan.hpp"
#include "stage_state.hpp"

namespace slipway::builder {

/// Where a stage begins: an image, or the result of an earlier stage.
struct StageOrigin {
    std::optional<size_t> stage;
    std::string image;  ///< "" = scratch
};

/// Pure. The recipe and the request must outlive it.
class StageGraph {
 public:
    /// Throws: Error(invalid_recipe), Error(unsupported) with the line.
    StageGraph(const Recipe& recipe, const PlanRequest& request);

    /// The stage that the request asks for. Throws: Error(not_found) with those that are there.
    size_t target() const;
    /// Those that `target` needs, and itself, in the recipe's order.
    std::vector<size_t> needed(size_t target) const;
    const StageOrigin& origin(size_t stage) const { return origins_[stage]; }
    /// The stage before `before` that `--from=NAME` means, if it is one.
    std::optional<size_t> find(const std::string& from, size_t before) const;
    /// What stands before the first FROM, expanded, for the stages' own variables.
    GlobalVariables take_globals() { return std::move(globals_); }

 private:
    void read_globals();
    void define_global(const std::string& name, const std::optional<std::string>& fallback);
    std::string expand_global(const std::string& text) const;
    std::optional<size_t> find_named(const std::string& name, size_t before) const;
    void resolve_bases();
    void require_own_platform(const std::string& platform) const;

    const Recipe& recipe_;
    const PlanRequest& request_;
    GlobalVariables globals_;
    std::vector<StageOrigin> origins_;  ///< by stage
};

/// The error with its place in the recipe, unless it has one.
Error placed(const Error& error, const Recipe& recipe, Place place);

}  // namespace slipway::builder
