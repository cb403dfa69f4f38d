// Processes that outlive us unnoticed: a session's broker, an image's server.
#pragma once

#include <functional>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::runtime {

/// What a new process does; it must not return.
using DetachedBody = std::function<void()>;

/// Fork a process that no wait(2) of the user's command, which this process will become, hears of:
/// it has no exit signal (clone(2)), so that only __WALL finds it. Were it to end before the
/// command, which means that somebody killed it, the command would get a SIGCHLD and find nobody.
/// When the command ends first it is init's, as any other. It may run on all processors but the one
/// where we are.
/// Returns its pidfd. Pre: single-threaded. Throws: Error(host_forbids) when it cannot be started;
/// `what` is it for.
UniqueFd fork_detached(const char* what, const DetachedBody& body);

/// Turn this process into one without ties to who started it: own session, stdio on /dev/null,
/// graceful signals ignored, no descriptor but `kept`; `name` is what ps shows.
void become_background(const char* name, const std::vector<int>& kept);

}  // namespace slipway::runtime
