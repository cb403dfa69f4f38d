// The broker: the process that holds a session's namespaces as long as it has members.
#pragma once

#include "slipway/base/fd.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// What a request's only byte says; other versions have other session keys.
inline constexpr unsigned char kProtocolByte = 1;

/// Start the broker, no child of ours, on a bound socket. `creator` is our own pidfd: the session
/// outlives a creator that never asks by nothing.
/// Pre: single-threaded.
void start_broker(const RunPlan& plan, const UniqueFd& socket, const UniqueFd& creator);

}  // namespace slipway::runtime
