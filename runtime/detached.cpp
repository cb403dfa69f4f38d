// Forks processes that the user's command does not hear of, and cuts their ties.
// Must not: wait for them.
#include "detached.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "slipway/base/error.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

UniqueFd fork_detached(const char* what, const DetachedBody& body) {
    int pidfd = -1;
    clone_args request{};  // a copy of our memory; no exit signal
    request.flags = CLONE_PIDFD;
    request.pidfd = reinterpret_cast<uint64_t>(&pidfd);
    // As fork(3): the C library keeps the new thread's number where the kernel clears it at its
    // end.
    int* number = nullptr;
    if (::prctl(PR_GET_TID_ADDRESS, &number) == 0 && number != nullptr) {
        request.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        request.child_tid = reinterpret_cast<uint64_t>(number);
    }
    const long pid = ::syscall(SYS_clone3, &request, sizeof request);
    if (pid < 0)
        throw SysError(fmt::format("cannot start {}", what), "clone3")
            .hint("raise the limit on processes (ulimit -u)");
    if (pid > 0) {
        // The launcher bound the rank, not what serves it. Told here, before it runs: were both on
        // one processor, execve would move the command to another, with nothing in its caches.
        sys::keep_process_off_processor(static_cast<pid_t>(pid), ::sched_getcpu());
        return UniqueFd(pidfd);
    }
    body();
    ::_exit(0);
}

void become_background(const char* name, const std::vector<int>& kept) {
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
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    (void)!::chdir("/");
}

}  // namespace slipway::runtime
