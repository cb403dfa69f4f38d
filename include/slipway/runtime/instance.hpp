// Instances: commands that run in the background under a name, for services.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/json.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// `slipway instance start`, as typed.
struct InstanceStart {
    std::string name;
    RunOptions run;
    bool persist = false;                      ///< live on when the caller's session ends
    std::optional<std::string> ready_command;  ///< --ready: a shell command inside that succeeds
    std::optional<uint16_t> ready_port;        ///< --ready-port: a TCP port of this host
    std::optional<std::string> ready_log;      ///< --ready-log: a text in what it prints
    std::optional<std::string> ready_timeout;  ///< --ready-timeout; absent: 60 s
    std::optional<std::string> stop_signal;    ///< --stop-signal; absent: the image's, else SIGTERM
    std::optional<std::string> log_size;       ///< --log-size; absent: 10 MiB
};

/// An instance as `list` shows it.
struct InstanceStatus {
    enum class State { starting, running, ready, ended } state = State::starting;
    std::string name;
    pid_t pid = 0;  ///< of the command, on this host
    std::string image;
    std::vector<std::string> command;
    int64_t started_at = 0;  ///< seconds since 1970
    bool persist = false;
    std::string log;                 ///< the file
    std::string end;                 ///< how it ended: "exit status 3"; "" while it lives
    std::optional<int> exit_status;  ///< as a shell would report it
};
Json to_json(const InstanceStatus& status);

/// Start an instance and wait until it is ready, or has begun if nothing says when it is.
/// Throws: Error(already_exists) when one of this name lives; Error(command_failed) with the end of
/// its log when it ends, or the time is up, before it is ready: nothing is left of it then.
InstanceStatus start_instance(const InstanceStart& start);

/// The instances of this user on this host, by name. What has ended is told once, and cleaned.
std::vector<InstanceStatus> list_instances();

/// `slipway instance exec`, as typed.
struct InstanceExec {
    std::string name;
    std::vector<std::string> command;
    std::vector<std::string> env;          ///< KEY=VALUE, or KEY for the caller's value
    std::optional<std::string> directory;  ///< --cd
};
/// Become a command in the instance's container, with its environment. Returns never.
/// Throws: Error(not_found) when no such instance lives; what run() throws.
[[noreturn]] void exec_in_instance(const InstanceExec& request);

/// Write an instance's log to standard output: all or the last `tail` lines, then, with `follow`,
/// what comes until the instance ends. An ended instance keeps its log until the next start.
void print_instance_log(const std::string& name, std::optional<uint64_t> tail, bool follow);

/// `slipway instance stop`, as typed.
struct InstanceStop {
    std::optional<std::string> signal;  ///< --signal; absent: what start found
    std::optional<std::string> time;    ///< --time before SIGKILL; absent: 10 s
};
/// End an instance: its signal to the command, then SIGKILL to everything in its container.
/// Throws: Error(not_found) when there is no such instance.
void stop_instance(const std::string& name, const InstanceStop& request);

}  // namespace slipway::runtime
