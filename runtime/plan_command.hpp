// What a run executes, out of the image's ENTRYPOINT and CMD and what was asked for.
#pragma once

#include <string>
#include <vector>

#include "run_spec.hpp"
#include "slipway/image/config.hpp"

namespace slipway::runtime {

/// As podman has it: the words after the image take the place of CMD, ENTRYPOINT stays unless
/// --entrypoint takes its place, and then CMD counts no more. Pure.
/// Throws: Error(usage) when nothing is left to run.
std::vector<std::string> plan_command(const RunSpec& spec, const image::ImageConfig& config);

}  // namespace slipway::runtime
