// Why a plan is as it is: its decisions with their origins, for --explain-env and `slipway
// explain`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/base/json.hpp"

namespace slipway::runtime {

struct RunPlan;

/// What became of one variable, and what decided it last.
struct EnvDecision {
    std::string name;
    std::optional<std::string> value;  ///< absent: the command does not have it
    std::string origin;                ///< "host", "image ENV", "default", "--env, argument 1"
    std::string reason;                ///< "" where the origin says it all
};

/// Words of the command, and where they come from.
struct CommandPart {
    std::vector<std::string> words;
    std::string origin;  ///< "image ENTRYPOINT", "command line"
};

/// Beside the mounts, which carry their own origins.
struct PlanReasons {
    std::string identity;
    std::string session;
    std::string working_directory = "--cd, or the image's WORKDIR";
    std::vector<CommandPart> command;
    std::vector<EnvDecision> environment;  ///< sorted by name, dropped variables included
};

/// The decisions on the environment: a list of {name, value (or null), origin, reason}.
Json environment_json(const RunPlan& plan);
/// The plan, as --dry-run prints it, with a member "reasons".
Json explain_json(const RunPlan& plan);

}  // namespace slipway::runtime
