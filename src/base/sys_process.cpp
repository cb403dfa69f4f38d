// System calls of supervision, each wrapped once.
// Must not: decide what is done about a signal or a child.
#include "slipway/base/sys_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "slipway/base/error.hpp"

namespace slipway::sys {

sigset_t block_all_signals() {
    sigset_t all, before;
    ::sigfillset(&all);
    if (::sigprocmask(SIG_SETMASK, &all, &before) != 0)
        throw SysError("cannot block signals", "sigprocmask");
    return before;
}

void set_signal_mask(const sigset_t& mask) {
    if (::sigprocmask(SIG_SETMASK, &mask, nullptr) != 0)
        throw SysError("cannot set the signal mask", "sigprocmask");
}

UniqueFd signalfd_all() {
    sigset_t all;
    ::sigfillset(&all);
    const int fd = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) throw SysError("cannot receive signals", "signalfd");
    return UniqueFd(fd);
}

std::optional<SignalReceived> next_signal(int signalfd) {
    signalfd_siginfo info{};
    ssize_t size = 0;
    while ((size = ::read(signalfd, &info, sizeof info)) < 0 && errno == EINTR) continue;
    if (size < 0 && errno != EAGAIN) throw SysError("cannot receive a signal", "read");
    if (size != sizeof info) return std::nullopt;
    SignalReceived signal;
    signal.number = static_cast<int>(info.ssi_signo);
    signal.from_kernel = info.ssi_code > 0;
    signal.sender = static_cast<pid_t>(info.ssi_pid);
    signal.queued = info.ssi_code == SI_QUEUE;
    signal.value.sival_ptr = reinterpret_cast<void*>(static_cast<uintptr_t>(info.ssi_ptr));
    return signal;
}

bool forward_signal(int pidfd, const SignalReceived& signal) {
    if (!signal.queued) return try_signal(pidfd, signal.number);
    siginfo_t info{};
    info.si_signo = signal.number;
    info.si_code = SI_QUEUE;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_value = signal.value;
    return ::syscall(SYS_pidfd_send_signal, pidfd, signal.number, &info, 0) == 0;
}

bool try_signal(int pidfd, int signal) {
    return ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0;
}

std::optional<UniqueFd> pidfd_open_if_exists(pid_t pid) {
    const long fd = ::syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    // EINVAL: the number is that of a thread, or none at all.
    if (errno == ESRCH || errno == EINVAL) return std::nullopt;
    throw SysError(fmt::format("cannot open process {}", pid), "pidfd_open");
}

bool wait_process_end(int pidfd, int timeout_ms) {
    pollfd ended{pidfd, POLLIN, 0};
    int count = 0;
    while ((count = ::poll(&ended, 1, timeout_ms)) < 0 && errno == EINTR) continue;
    return count > 0;
}

std::optional<ChildChange> next_child_change(pid_t owned) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0) {
        if (errno == ECHILD) return std::nullopt;
        throw SysError("cannot wait for children", "waitid");
    }
    if (info.si_pid == 0) return std::nullopt;
    ChildChange change;
    change.pid = info.si_pid;
    change.stopped = info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED;
    if (change.stopped) change.stop_signal = info.si_status;
    // Of a stopped child only the stop is taken: it may have been killed since, and that is told
    // next.
    if (change.stopped || change.pid != owned)
        ::waitid(P_PID, static_cast<id_t>(change.pid), &info,
                 (change.stopped ? WSTOPPED : WEXITED) | WNOHANG);
    return change;
}

void close_all_but(const std::vector<int>& kept) {
    std::vector<int> sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    unsigned next = STDERR_FILENO + 1;
    for (const int fd : sorted) {
        const auto number = static_cast<unsigned>(fd);
        if (fd < 0 || number < next) continue;
        if (number > next) ::close_range(next, number - 1, 0);
        next = number + 1;
    }
    ::close_range(next, ~0U, 0);
}

void null_standard_descriptors(int first, int last) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = first; fd <= last; ++fd) {
        if (null >= 0)
            ::dup2(null, fd);
        else
            ::close(fd);
    }
    if (null > STDERR_FILENO) ::close(null);
}

namespace {

bool connects(int family, const sockaddr* address, socklen_t size) {
    const UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return fd && ::connect(fd.get(), address, size) == 0;
}

}  // namespace

bool run_on_processor(int processor) {
    if (processor < 0 || processor >= CPU_SETSIZE) return false;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0;
}

bool run_only_when_idle() {
    const sched_param none{};
    return ::sched_setscheduler(0, SCHED_IDLE, &none) == 0;
}

namespace {

/// All processors but one, or all, for who `set` gives them to; it returns 0 when it could.
template <typename Set>
void give_processors(int but, const Set& set) {
    cpu_set_t processors;
    std::fill_n(reinterpret_cast<unsigned char*>(&processors), sizeof processors, 0xff);
    if (but >= CPU_SETSIZE) return;
    if (but >= 0) CPU_CLR(but, &processors);
    if (set(processors) == 0 || but < 0) return;
    CPU_SET(but, &processors);
    set(processors);
}

}  // namespace

void run_on_all_processors() { keep_off_processor(::pthread_self(), -1); }

void keep_off_processor(pthread_t thread, int processor) {
    give_processors(processor, [thread](const cpu_set_t& processors) {
        return ::pthread_setaffinity_np(thread, sizeof processors, &processors);
    });
}

void keep_process_off_processor(pid_t process, int processor) {
    give_processors(processor, [process](const cpu_set_t& processors) {
        return ::sched_setaffinity(process, sizeof processors, &processors);
    });
}

bool tcp_port_answers(uint16_t port) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    six.sin6_addr = in6addr_loopback;
    return connects(AF_INET, reinterpret_cast<const sockaddr*>(&four), sizeof four) ||
           connects(AF_INET6, reinterpret_cast<const sockaddr*>(&six), sizeof six);
}

}  // namespace slipway::sys
