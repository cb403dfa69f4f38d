// From a plan to the user's command, in this very process.
#pragma once

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// Enter the plan's container and become its command: pid, exit status, signals and inherited
/// descriptors are the command's own. Returns never.
/// Throws: Error when the command could not be started.
[[noreturn]] void execute_plan(const RunPlan& plan);

}  // namespace slipway::runtime
