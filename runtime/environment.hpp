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

/// Plan the environment; pure.
Environment plan_environment(const RunSpec& spec, const Environment& host,
                             const image::ImageConfig& config, const Visible& visible);
/// Apply --set-env alone, for the host as image.
Environment apply_settings(const RunSpec& spec, const Environment& host, Environment environment);

}  // namespace slipway::runtime
