// The environment of a command in a container: the host's, minus what breaks containers, plus the
// image's, plus what was asked for. Decided variable by variable, with the reason kept.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "env_policy.hpp"
#include "run_spec.hpp"
#include "slipway/image/config.hpp"
#include "slipway/runtime/explain.hpp"

namespace slipway::runtime {

using Environment = std::map<std::string, std::string>;

/// Tells whether a host path is seen at the same place inside.
using Visible = std::function<bool(const std::string& host_path)>;

/// Whom the environment is for.
struct EnvUser {
    bool other = false;       ///< not the caller, but a user of the image
    std::string name;         ///< of that other user; "": unknown
    std::string home = "/";   ///< inside, where the host's $HOME does not count
    std::string home_reason;  ///< why it is that one
    std::string time_zone;    ///< the host's, for a host without TZ; "": unknown
    bool own_home = true;     ///< the host's $HOME counts if it is seen inside
};

/// Decide each variable of a command in an image; sorted by name, dropped ones included. Pure.
std::vector<EnvDecision> plan_environment(const RunSpec& spec, const Environment& host,
                                          const image::ImageConfig& config, const Visible& visible,
                                          const EnvUser& user = {});
/// The same for a command of the host itself: what it has, and the changes asked for.
std::vector<EnvDecision> plan_host_environment(const RunSpec& spec, const Environment& host);

/// What is handed to the command: "K=V", in the order of the decisions.
std::vector<std::string> environment_strings(const std::vector<EnvDecision>& decisions);

}  // namespace slipway::runtime
