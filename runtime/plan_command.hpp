// What a run executes, and where: out of the image's ENTRYPOINT, CMD and WORKDIR and the request.
#pragma once

#include <string>
#include <vector>

#include "host_facts.hpp"
#include "run_spec.hpp"
#include "slipway/image/config.hpp"

namespace slipway::runtime {

/// The words to execute, with their origins. As podman has it: the words after the image take the
/// place of CMD, ENTRYPOINT stays unless --entrypoint takes its place, and then CMD counts no more.
/// Pure. Throws: Error(usage) when nothing is left to run.
std::vector<CommandPart> plan_command(const RunSpec& spec, const image::ImageConfig& config);

/// The programs of which `slipway shell` takes the first that the image has; pure.
std::vector<std::string> plan_shells(const HostFacts& facts);

/// Where the command starts, set in the plan with its reason; for a WORKDIR a step that makes it
/// where the image lacks it, as podman does. Pure.
void plan_working_directory(const RunSpec& spec, const image::ImageConfig& config, RunPlan& plan);

}  // namespace slipway::runtime
