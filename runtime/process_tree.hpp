// Processes that belong together, found in /proc and signalled without ever meeting a stranger.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::runtime {

/// A process that no other can be taken for: its number and when it started.
struct ProcessIdentity {
    pid_t pid = 0;
    std::string start_time;  ///< ticks since boot
    bool operator==(const ProcessIdentity&) const = default;
};

/// The process of this number as it is now; std::nullopt when there is none.
std::optional<ProcessIdentity> identify(pid_t pid);
/// Open a process and prove that it is the one meant; std::nullopt when that one has ended.
std::optional<UniqueFd> open_process(const ProcessIdentity& process);
/// True while the process has not ended (a zombie has).
bool is_alive(const ProcessIdentity& process);
/// Send a signal to this very process; false when it has ended.
bool signal_process(const ProcessIdentity& process, int signal);

/// The living descendants of a process, itself not among them. Whoever lost its parent counts if
/// `root` is the subreaper that inherited it.
std::vector<ProcessIdentity> descendants_of(pid_t root);

}  // namespace slipway::runtime
