// Which variables of the host enter a container: the policy, as rows with reasons.
#pragma once

#include <span>
#include <string_view>

namespace slipway::runtime {

/// A variable of the host that does not enter; "LMOD_*" covers all that begin so.
struct DroppedVariable {
    std::string_view pattern;
    std::string_view reason;
};
std::span<const DroppedVariable> dropped_variables();
/// The row that keeps `name` out, or nullptr.
const DroppedVariable* find_dropped(std::string_view name);

/// A variable that a launcher, a library, a proxy or a terminal needs: --clean-env leaves it.
struct NeededVariable {
    std::string_view pattern;
    std::string_view reason;
    /// It tells one rank from the others, or which devices are its own: only the launcher knows, so
    /// that the image's ENV does not change it.
    bool of_rank = false;
};
/// The row that says what `name` is for, or nullptr.
const NeededVariable* find_needed(std::string_view name);

/// Variables that hold one path of the host: they enter only if that path is seen inside.
bool holds_path(std::string_view name);

}  // namespace slipway::runtime
