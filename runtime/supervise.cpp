// The supervising parent: forwards signals, follows stops, keeps the time limit, reaps.
// Must not: hold the command's descriptors open, or stay when the command has ended.
#include "supervise.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "process_tree.hpp"
#include "signal_witness.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitTimedOut = 124;  // as timeout(1)
constexpr auto kGrace = std::chrono::seconds(10);
constexpr auto kKillAgain = std::chrono::milliseconds(50);

/// What our caller set for signals; the command gets it back.
class CallersSignals {
 public:
    CallersSignals() : mask_(sys::block_all_signals()) {
        struct sigaction normal {};
        normal.sa_handler = SIG_DFL;  // ignored, the kernel would reap before we could ask
        ::sigaction(SIGCHLD, &normal, &child_);
    }
    void restore() const {
        ::sigaction(SIGCHLD, &child_, nullptr);
        sys::set_signal_mask(mask_);
    }

 private:
    sigset_t mask_;
    struct sigaction child_ {};
};

bool has_controlling_terminal() {
    const int fd = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
}

bool is_pending(int signal) {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, signal) == 1;
}

/// Whether no shell of our session controls our process group as a job: nobody would continue it.
bool group_is_orphaned() {
    const pid_t group = ::getpgrp();
    pid_t parent = ::getppid();
    while (parent > 1 && ::getpgid(parent) == group) {
        const auto facts = read_process(parent);
        parent = facts ? facts->parent : 0;
    }
    return parent <= 1 || ::getsid(parent) != ::getsid(0);
}

/// Stop as the command was stopped, so that the shell's job control sees it. True when we were
/// stopped and continued; false at once in an orphaned process group, where job control does not
/// stop anybody: there is no shell that would continue us.
bool stop_self(int signal) {
    if (signal == SIGSTOP) {
        ::raise(SIGSTOP);
        return is_pending(SIGCONT);
    }
    struct sigaction normal {
    }, before{};
    normal.sa_handler = SIG_DFL;
    ::sigaction(signal, &normal, &before);
    ::raise(signal);
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, signal);
    ::sigprocmask(SIG_UNBLOCK, &one, nullptr);  // here we stop
    ::sigprocmask(SIG_BLOCK, &one, nullptr);
    ::sigaction(signal, &before, nullptr);
    return is_pending(SIGCONT);
}

class Supervisor {
 public:
    Supervisor(const RunPlan& plan, const std::function<void()>& become_command)
        : plan_(plan), signals_(sys::signalfd_all()) {
        // A terminal sends its signals to the whole foreground group: command and parent share one
        // there, or the command could not read it. Elsewhere the command has its own, so that a
        // signal to the parent's group (mpiexec, Slurm) reaches it once, through us.
        const bool own_group = !terminal_;
        const UniqueFd self = sys::pidfd_open(::getpid());
        if (plan.timeout_ms > 0) not_ours_ = descendants_of(::getpid());
        sys::set_child_subreaper();
        if (plan.timeout_ms > 0)
            deadline_ = Clock::now() + std::chrono::milliseconds(plan.timeout_ms);
        child_ = fork_child([&]() -> int {
            if (!plan.detach_on_kill) {
                sys::set_parent_death_signal(SIGKILL);
                if (sys::wait_process_end(self.get(), 0)) return kExitOwnFailure;
            }
            if (own_group) ::setpgid(0, 0);
            before_.restore();
            become_command();
            return kExitOwnFailure;
        });
        command_ = child_.process.pid();
    }

    /// The status to end with. Throws: what the child threw before it became the command.
    int run() {
        while (!ended_ || (timed_out_ && !everybody().empty())) {
            wait();
            if (started_yet()) give_up_descriptors();
            while (const auto signal = sys::next_signal(signals_.get())) handle(*signal);
            while (const auto change = sys::next_child_change(command_)) handle(*change);
            keep_time();
        }
        report_failed_start();
        return timed_out_ ? kExitTimedOut : ended_->shell_code();
    }

 private:
    void wait() {
        pollfd waits[2] = {{signals_.get(), POLLIN, 0}, {child_.error_pipe.get(), POLLIN, 0}};
        int timeout_ms = -1;
        if (deadline_) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
            timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
        }
        ::poll(waits, 2, timeout_ms);
        error_pipe_ready_ = waits[1].revents != 0;
    }

    /// The pipe of errors closes when the child has become the command, or failed to.
    bool started_yet() {
        if (!error_pipe_ready_ || !child_.error_pipe) return false;
        error_ = read_all(child_.error_pipe.get(), "error pipe");
        child_.error_pipe.reset();
        return error_.empty();
    }

    void report_failed_start() {
        if (child_.error_pipe) error_ = read_all(child_.error_pipe.get(), "error pipe");
        if (error_.empty()) return;
        throw parse_error(error_);
    }

    /// Whoever waits for the end of a pipe waits for the command, not for us.
    void give_up_descriptors() {
        const bool speaks = plan_.timeout_ms > 0;
        sys::null_standard_descriptors(STDIN_FILENO, speaks ? STDOUT_FILENO : STDERR_FILENO);
        sys::close_all_but({signals_.get(), child_.process.pidfd(), witness_.socket()});
    }

    /// Of the kernel's signals: what the terminal sent, the command got itself, for it is in the
    /// same group; but a hang-up is told to the leader of the session alone, and a timer that was
    /// set before us rings here.
    bool is_ours_alone(int number) const {
        if (number == SIGHUP || number == SIGCONT) return !terminal_ || ::getsid(0) == ::getpid();
        return number == SIGALRM;
    }

    void handle(const sys::SignalReceived& signal) {
        if (signal.number == SIGCHLD) return;
        if (signal.from_kernel && !is_ours_alone(signal.number)) return;
        if (witness_.went_to_everybody(signal)) return;
        if (!ended_) sys::forward_signal(child_.process.pidfd(), signal);
    }

    void handle(const sys::ChildChange& change) {
        if (change.pid != command_) return;  // an orphan, reaped
        if (change.stopped) {
            // Away from a terminal the time limit counts, and there may be no shell to continue us.
            if (!terminal_ && (deadline_ || group_is_orphaned())) return;
            // Continued, we find the SIGCONT waiting, to be forwarded as any other signal.
            if (!stop_self(change.stop_signal)) sys::try_signal(child_.process.pidfd(), SIGCONT);
            return;
        }
        ended_ = child_.process.wait();
    }

    /// The command and all that it started. What was there before is who ran `exec slipway`'s.
    std::vector<ProcessIdentity> everybody() const {
        auto found = descendants_of(::getpid());
        std::erase_if(found, [this](const auto& process) {
            return process.pid == witness_.pid() ||
                   std::find(not_ours_.begin(), not_ours_.end(), process) != not_ours_.end();
        });
        return found;
    }

    void signal_everybody(int signal) {
        for (const auto& process : everybody()) {
            signal_process(process, signal);
            signal_process(process, SIGCONT);  // a stopped process would not hear it
        }
    }

    void keep_time() {
        if (!deadline_ || Clock::now() < *deadline_) return;
        if (!timed_out_) {
            if (ended_) return;
            timed_out_ = true;
            log::write(log::Level::error,
                       fmt::format("the command runs longer than {} s (--timeout); ending it",
                                   static_cast<double>(plan_.timeout_ms) / 1000));
            signal_everybody(SIGTERM);
            deadline_ = kill_at_ = Clock::now() + kGrace;
            return;
        }
        if (Clock::now() < kill_at_) return;
        if (!killed_)
            log::write(log::Level::error, "it did not end within 10 s of SIGTERM; killing it");
        killed_ = true;
        signal_everybody(SIGKILL);
        deadline_ = Clock::now() + kKillAgain;  // for what was forked meanwhile
    }

    const RunPlan& plan_;
    CallersSignals before_;
    UniqueFd signals_;
    SignalWitness witness_;
    ForkedChild child_;
    pid_t command_ = -1;
    std::vector<ProcessIdentity> not_ours_;
    bool terminal_ = has_controlling_terminal();
    std::string error_;
    bool error_pipe_ready_ = false;
    std::optional<ExitStatus> ended_;
    std::optional<Clock::time_point> deadline_;
    Clock::time_point kill_at_;
    bool timed_out_ = false, killed_ = false;
};

}  // namespace

bool needs_supervisor(const RunPlan& plan) { return plan.timeout_ms > 0 || plan.detach_on_kill; }

void supervise(const RunPlan& plan, const std::function<void()>& become_command) {
    Supervisor supervisor(plan, become_command);
    ::_exit(supervisor.run());
}

}  // namespace slipway::runtime
