// Child processes: started with care, waited for by pidfd, killed and reaped by their owner.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway {

/// How a process ended.
struct ExitStatus {
    int code = 0;    ///< exit code, if signal is 0
    int signal = 0;  ///< the signal that ended it, or 0
    bool success() const { return code == 0 && signal == 0; }
    /// The status a shell would report: the code, or 128 + signal.
    int shell_code() const { return signal != 0 ? 128 + signal : code; }
    /// "exit status 3" or "killed by signal 9 (SIGKILL)".
    std::string describe() const;
    static ExitStatus from_wait_status(int wait_status);
};

/// A running child. The destructor kills (SIGKILL) and reaps one that was not waited for.
class ChildProcess {
 public:
    ChildProcess() = default;
    explicit ChildProcess(pid_t pid);
    ChildProcess(ChildProcess&&) noexcept;
    ChildProcess& operator=(ChildProcess&&) noexcept;
    ~ChildProcess();
    pid_t pid() const { return pid_; }
    int pidfd() const { return pidfd_.get(); }
    bool running() const { return pid_ > 0; }
    void kill(int signal);
    ExitStatus wait();

 private:
    pid_t pid_ = -1;
    UniqueFd pidfd_;
};

/// Fork while single-threaded and run `body` in the child, whose return value is its exit code.
/// An Error thrown in the child reaches the parent whole through a pipe: wait_forked() rethrows it.
struct ForkedChild {
    ChildProcess process;
    UniqueFd error_pipe;
};
ForkedChild fork_child(const std::function<int()>& body);
/// Wait for the child; throws the error that it sent, if it sent one.
ExitStatus wait_forked(ForkedChild& child);

/// What execve(2) takes: pointers into `strings`, and a null pointer. Valid as long as `strings` is.
std::vector<char*> exec_pointers(const std::vector<std::string>& strings);

struct CommandOptions {
    std::vector<std::string> argv;
    std::optional<std::vector<std::string>> env;  ///< "K=V"; absent: our own environment
    std::string working_directory;                ///< "": ours
    std::string input;                            ///< what the command reads on stdin
    bool capture_output = true;   ///< stdout into the result; else it goes to our stderr
    bool capture_errors = false;  ///< stderr into the result; else ours
};
struct CommandResult {
    ExitStatus status;
    std::string output;
    std::string errors;
};
/// Run a helper program to its end. Throws: Error(not_found) when there is no such program.
CommandResult run_command(const CommandOptions& options);

}  // namespace slipway
