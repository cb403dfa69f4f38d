// What /proc tells of a process.
#pragma once

#include <optional>
#include <string>

namespace slipway {

/// A process as /proc tells of it.
struct ProcessFacts {
    std::string name;  ///< comm, at most 15 characters
    char state = '?';  ///< 'R', 'S', 'Z', ...
    int parent = 0;
    std::string start_time;  ///< ticks since boot: with the pid, no other process's
    int processor = -1;      ///< that it ran on last; -1: not told
};

/// Read /proc/PID/stat; std::nullopt when there is no such process, or it is hidden from us.
/// Source: proc_pid_stat(5).
std::optional<ProcessFacts> read_process(int pid);
/// Understand the text of such a file; std::nullopt when it is none.
std::optional<ProcessFacts> parse_process_stat(const std::string& text);

}  // namespace slipway
