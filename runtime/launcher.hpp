// Which launcher started us: the ranks of one job step on one node share a session.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "host_facts.hpp"

namespace slipway::runtime {

/// A process as /proc tells of it.
struct ProcessFacts {
    std::string name;  ///< comm, at most 15 characters
    int parent = 0;
    std::string start_time;  ///< ticks since boot: with the pid, no other process's
};
/// std::nullopt when there is no such process, or it is hidden from us.
using ProcessReader = std::function<std::optional<ProcessFacts>(int pid)>;

/// Tell the job step from the launcher's variables, else from the launching process among our
/// ancestors, else from our parent. `parent` is our parent's pid.
Launcher find_launcher(const std::map<std::string, std::string>& environment, int parent,
                       const ProcessReader& read_process);

/// Read /proc/PID/stat. Source: proc_pid_stat(5).
std::optional<ProcessFacts> read_process(int pid);

}  // namespace slipway::runtime
