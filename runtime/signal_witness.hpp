// Finds out whether a signal went to a whole job step or to one process.
#pragma once

#include <sys/types.h>

#include <optional>

#include "slipway/base/process.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

/// Slurm signals every process of a step. A parent that forwards its signals to the command would
/// have that hear each of them twice; so it keeps a child that does nothing but hear what the whole
/// step hears.
class SignalWitness {
 public:
    /// Start one if a process of Slurm's is among our ancestors; nothing elsewhere.
    SignalWitness();
    /// True when the sender was Slurm and the witness got the same signal.
    bool went_to_everybody(const sys::SignalReceived& signal);
    pid_t pid() const { return child_ ? child_->process.pid() : -1; }
    int socket() const { return ours_.get(); }

 private:
    UniqueFd ours_;
    std::optional<ForkedChild> child_;
};

}  // namespace slipway::runtime
