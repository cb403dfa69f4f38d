// Forks processes that are no child of the user's command, and cuts their ties.
// Must not: wait for them.
#include "detached.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "slipway/base/error.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

namespace {

/// The stack of the process in between, and of the new one: untouched pages cost nothing.
constexpr size_t kStackBytes = 8 << 20;

/// In the process in between, which shares our memory while we wait: the new process gets the only
/// copy of it.
int fork_and_end(void* body) {
    const pid_t pid = ::fork();
    if (pid == 0) (*static_cast<const std::function<void()>*>(body))();
    ::_exit(pid > 0 ? 0 : 1);  // who waits for the new process sees its descriptors close
}

}  // namespace

DetachedFork::DetachedFork(const char* what, const Body& body) {
    std::function<void()> told = [&body, processor = ::sched_getcpu()] { body(processor); };
    void* stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        throw SysError(fmt::format("cannot start {}", what), "mmap")
            .hint("raise the limit on address space (ulimit -v)");
    // As vfork(2), but its end sends no signal: one that is blocked now would wait for the user's
    // command.
    middle_ = ::clone(fork_and_end, static_cast<char*>(stack) + kStackBytes, CLONE_VM | CLONE_VFORK,
                      &told);
    const int error = errno;
    ::munmap(stack, kStackBytes);
    errno = error;
    if (middle_ < 0)
        throw SysError(fmt::format("cannot start {}", what), "clone")
            .hint("raise the limit on processes (ulimit -u)");
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
