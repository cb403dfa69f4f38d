// The broker: the process that holds a session's namespaces as long as it has members.
#pragma once

#include <string>

#include "detached.hpp"
#include "slipway/base/fd.hpp"

namespace slipway::runtime {

struct BrokerStart {
    UniqueFd socket;       ///< bound to the session's name
    UniqueFd maker;        ///< where the container is handed over
    UniqueFd creator;      ///< the maker's pidfd: the first member
    std::string identity;  ///< of the plan
    uint64_t linger_ms = 0;
};

/// Start the broker, no child of ours; `start` remains the caller's to close.
/// Pre: single-threaded.
DetachedFork start_broker(BrokerStart& start);

}  // namespace slipway::runtime
