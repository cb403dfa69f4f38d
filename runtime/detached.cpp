// Forks processes that are no child of the user's command, and cuts their ties.
// Must not: wait for them.
#include "detached.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "slipway/base/error.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

DetachedFork::DetachedFork(const char* what, const Body& body) {
    const int processor = ::sched_getcpu();
    clone_args request{};  // a copy of us, as fork(2) makes it
    // Its end sends no signal: one that is blocked now would wait for the user's command.
    request.exit_signal = 0;
    middle_ = static_cast<pid_t>(::syscall(SYS_clone3, &request, sizeof request));
    if (middle_ < 0) {
        SysError error(fmt::format("cannot start {}", what), "clone3");
        if (error.errno_value() == EAGAIN) error.hint("raise the limit on processes (ulimit -u)");
        throw error;
    }
    if (middle_ == 0) {
        const pid_t pid = ::fork();
        if (pid != 0) ::_exit(pid > 0 ? 0 : 1);  // who waits sees the descriptors close
        try {
            body(processor);
        } catch (...) {  // as above
        }
        ::_exit(kExitOwnFailure);
    }
    // Both leave our processor, if they can, before they run: with one of them waiting there,
    // execve would move the command to another, where nothing is in the caches.
    sys::keep_process_off_processor(middle_, processor);
}

DetachedFork::DetachedFork(DetachedFork&& other) noexcept
    : middle_(std::exchange(other.middle_, -1)) {}

DetachedFork& DetachedFork::operator=(DetachedFork&& other) noexcept {
    std::swap(middle_, other.middle_);
    return *this;
}

DetachedFork::~DetachedFork() {
    if (middle_ <= 0) return;
    while (::waitpid(middle_, nullptr, __WALL) < 0 && errno == EINTR) continue;
}

void become_background(const char* name, const std::vector<int>& kept, int creators_processor) {
    ::setsid();
    ::prctl(PR_SET_NAME, name);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2})
        ::signal(signal, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::dup2(null, fd);
    sys::close_all_but(kept);
    // The launcher bound the rank, not us.
    sys::keep_off_processor(::pthread_self(), creators_processor);
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    (void)!::chdir("/");
}

}  // namespace slipway::runtime
