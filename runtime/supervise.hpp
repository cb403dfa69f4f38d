// A parent beside the command, for what a process cannot do for itself: a time limit, and outliving
// the launcher.
#pragma once

#include <functional>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// True when the plan asks for something that needs a parent. Otherwise the launcher becomes the
/// command itself: every signal, limit and status is the command's own then.
bool needs_supervisor(const RunPlan& plan);

/// Run `become_command`, which executes the command or throws, in a child, and end as the command
/// ends: with its status, 128+N for a signal, 124 when its time was up.
/// Signals reach the command, stops and continuations pass both ways, orphans are reaped.
/// Pre: single-threaded, in the container. Returns never.
/// Throws: what `become_command` threw, before the command started.
[[noreturn]] void supervise(const RunPlan& plan, const std::function<void()>& become_command);

}  // namespace slipway::runtime
