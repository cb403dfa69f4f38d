// System calls of supervision: signals as data, children of every kind, descriptors given up.
#pragma once

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::sys {

/// Block every signal that can be blocked; returns the mask that was in force.
sigset_t block_all_signals();
void set_signal_mask(const sigset_t& mask);
/// A descriptor that gives the blocked signals as they come, without waiting. Source: signalfd(2).
UniqueFd signalfd_all();

/// A signal that came, and who sent it.
struct SignalReceived {
    int number = 0;
    bool from_kernel = false;  ///< the terminal's, or an expired timer's: no process sent it
    bool queued = false;       ///< by sigqueue(3), with `value`
    sigval value{};
    pid_t sender = 0;  ///< its pid, where a process sent it
};
/// The next signal that waits in a signalfd; std::nullopt when none does.
std::optional<SignalReceived> next_signal(int signalfd);
/// Send a signal with its value. False when the process has ended or may not be sent to.
bool forward_signal(int pidfd, const SignalReceived& signal);
/// Send a signal. False when the process has ended or may not be sent to.
bool try_signal(int pidfd, int signal);
/// A process by its number; std::nullopt when there is none.
std::optional<UniqueFd> pidfd_open_if_exists(pid_t pid);
/// Wait for the process behind a pidfd to end; false when it lives on after `timeout_ms` (-1:
/// none).
bool wait_process_end(int pidfd, int timeout_ms);

/// A child that changed its state: ended, or was stopped.
struct ChildChange {
    pid_t pid = 0;
    bool stopped = false;
    int stop_signal = 0;
};
/// The next change of any child; std::nullopt when there is none now. One that ended is reaped, but
/// not `owned`: its owner reaps it before this is called again.
std::optional<ChildChange> next_child_change(pid_t owned);

/// Close every descriptor beyond standard error except `kept`.
void close_all_but(const std::vector<int>& kept);
/// Put /dev/null in place of the standard descriptors from `first` to `last`.
void null_standard_descriptors(int first, int last);

/// Bind this thread to one processor. False where it may not run there.
bool run_on_processor(int processor);
/// Let this thread run only where nothing else wants to, and all that it will create. For good: the
/// way back needs a privilege. False where that is forbidden. Source: sched(7), SCHED_IDLE.
bool run_only_when_idle();
/// Let this thread run wherever its control group may.
void run_on_all_processors();
/// Let a thread run wherever its control group may, except on this one (-1: no exception); on this
/// one too where no other is left.
void keep_off_processor(pthread_t thread, int processor);
/// The same of a process that has one thread.
void keep_process_off_processor(pid_t process, int processor);

/// True when something on this host listens on the TCP port, over IPv4 or IPv6.
bool tcp_port_answers(uint16_t port);

}  // namespace slipway::sys
