// Sharing one container between the ranks of a job step on a node.
#pragma once

#include <string>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// Enter the session of the plan's key, making it if nobody has: afterwards this process is in its
/// user and mount namespaces, with its root as "/".
/// The election: who binds the abstract socket of the key's name starts the broker, everyone asks
/// that socket for the namespaces. Nobody leads; a broker that goes is replaced by the next who
/// asks. Returns false when no session can be had, with a note in the log: use a private one.
/// Pre: single-threaded. Throws: the error of the container's set-up.
bool enter_session(const RunPlan& plan);

/// The abstract name under which a session answers.
std::string session_socket_name(const std::string& key);

/// First byte of a broker's answer; descriptors of the user and the mount namespace come along
/// with `entered`, the serialized error follows `failed`.
enum class Answer : char { entered = 'e', failed = 'f' };

}  // namespace slipway::runtime
