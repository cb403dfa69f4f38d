// The process that stays with an instance, from its start to its end.
#pragma once

#include <cstdint>
#include <string>

#include "instance_state.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// What the supervisor tells who starts the instance, one message each: a byte and a text.
enum class InstanceNews : char {
    born = 'b',     ///< the record is written; text: its pid
    started = 's',  ///< the command has been executed
    ready = 'r',    ///< the record says so
    failed = 'f',   ///< could not start; text: Error::serialize()
    ended = 'e',    ///< text: "exit status 3"
};
/// What it is told: the instance is ready. A closed socket without it: give up, end the instance.
inline constexpr char kInstanceAccepted = 'a';

struct SupervisorJob {
    InstanceDirectory directory;
    InstanceRecord record;
    RunPlan plan;
    uint64_t log_limit_bytes = 0;
    UniqueFd channel;  ///< SEQPACKET, to who starts the instance
    UniqueFd watched;  ///< the process with which the instance ends; empty: none
};

/// Become the supervisor, in a session of its own. Returns never.
/// Pre: single-threaded; no child of the caller that it still needs (double fork).
[[noreturn]] void supervise_instance(SupervisorJob job);

}  // namespace slipway::runtime
