// The broker: the process that holds a session's namespaces as long as it has members.
#pragma once

#include <string>

#include "slipway/base/fd.hpp"

namespace slipway::runtime {

struct BrokerStart {
    UniqueFd socket;       ///< bound to the session's name
    UniqueFd maker;        ///< where the container is handed over
    UniqueFd creator;      ///< the maker's pidfd: the first member
    std::string identity;  ///< of the plan
    uint64_t linger_ms = 0;
};

/// Start the broker, unnoticed by the command (fork_detached); `start` remains the caller's to
/// close. Pre: single-threaded.
void start_broker(BrokerStart& start);

}  // namespace slipway::runtime
