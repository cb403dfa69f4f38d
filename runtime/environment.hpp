// The environment of a command in a container: the host's, minus what breaks containers, plus the
// image's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "run_spec.hpp"
#include "slipway/image/config.hpp"

namespace slipway::runtime {

using Environment = std::map<std::string, std::string>;

/// A variable of the host that does not enter; "LMOD_*" covers all that begin so.
struct DroppedVariable {
    std::string pattern;
    std::string reason;
};
/// The policy, as rows with reasons.
const std::vector<DroppedVariable>& dropped_variables();
/// The row that keeps `name` out, or nullptr.
const DroppedVariable* find_dropped(const std::string& name);

/// Tells whether a host path is seen at the same place inside.
using Visible = std::function<bool(const std::string& host_path)>;

/// Plan the environment of a command in an image, as "K=V", sorted; pure.
std::vector<std::string> plan_environment(const RunSpec& spec, const Environment& host,
                                          const image::ImageConfig& config, const Visible& visible);
/// The same for a command of the host itself: what it has, and the changes asked for.
std::vector<std::string> plan_host_environment(const RunSpec& spec, const Environment& host);

}  // namespace slipway::runtime
