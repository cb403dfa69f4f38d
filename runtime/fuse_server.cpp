// Starts the FUSE server of an image outside of the mount namespace that it serves.
// Must not: mount, or stay an ancestor or child of the user's command.
#include "fuse_server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::runtime {

namespace {

constexpr unsigned kMaxThreads = 4;

UniqueFd open_fuse(const std::string& image) {
    try {
        return sys::open("/dev/fuse", O_RDWR);
    } catch (const SysError& error) {
        throw Error(ErrorKind::host_forbids, fmt::format("cannot serve the squashfs image {}: {}",
                                                         slipway::quoted(image), error.message()))
            .note(
                "squashfs images are mounted through /dev/fuse, which must be open to users "
                "(mode 0666)")
            .hint(
                fmt::format("ask the administrator for: modprobe fuse; chmod 666 /dev/fuse. Until "
                            "then run from a directory: slipway convert {} DIRECTORY",
                            image));
    }
}

[[noreturn]] void serve(const RunPlan& plan, const UniqueFd& fuse, const UniqueFd& image,
                        const UniqueFd& start) {
    become_background("slipway-fuse", {fuse.get(), image.get(), start.get()});
    char byte = 0;
    if (::read(start.get(), &byte, 1) != 1) ::_exit(0);  // the mount did not come about
    ::close(start.get());
    image::SquashfsServerOptions options;
    options.fuse_fd = fuse.get();
    options.image_fd = image.get();
    options.image_offset_bytes = plan.mounts.front().image_offset_bytes;
    options.subject = plan.mounts.front().source;
    options.show_uid = plan.uid_inside;
    options.show_gid = plan.gid_inside;
    options.threads = std::clamp(std::thread::hardware_concurrency(), 2u, kMaxThreads);
    int status = kExitOwnFailure;
    try {
        status = image::serve_squashfs(options);
    } catch (const std::exception&) {  // nobody is left to tell; users of the image see ENOTCONN
    }
    ::_exit(status == 0 ? 0 : kExitOwnFailure);
}

}  // namespace

bool needs_server(const RunPlan& plan) {
    return !plan.mounts.empty() && plan.mounts.front().kind == MountStep::Kind::image_squashfs;
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
    std::vector<int> sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    unsigned next = STDERR_FILENO + 1;
    for (const int fd : sorted) {
        const auto number = static_cast<unsigned>(fd);
        if (number > next) ::close_range(next, number - 1, 0);
        next = std::max(next, number + 1);
    }
    ::close_range(next, ~0U, 0);
    cpu_set_t all;
    std::fill_n(reinterpret_cast<unsigned char*>(&all), sizeof all, 0xff);
    ::sched_setaffinity(0, sizeof all, &all);  // the launcher bound the rank, not us
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    (void)!::chdir("/");
}

FuseServer start_fuse_server(const RunPlan& plan) {
    const std::string& path = plan.mounts.front().source;
    const UniqueFd image = sys::open(path, O_RDONLY);
    image::check_squashfs(image.get(), path, plan.mounts.front().image_offset_bytes);
    FuseServer server;
    server.fuse_fd = open_fuse(path);
    auto [start_reader, start_writer] = sys::socketpair(SOCK_STREAM);
    auto [pid_reader, pid_writer] = sys::pipe();
    const pid_t middle = ::fork();
    if (middle < 0)
        throw SysError("cannot start the image's server", "fork")
            .hint("raise the limit on processes (ulimit -u)");
    if (middle == 0) {  // forks once more, so that the server is not the user's command's child
        start_writer.reset();
        const pid_t pid = ::fork();
        if (pid == 0) serve(plan, server.fuse_fd, image, start_reader);
        (void)!::write(pid_writer.get(), &pid, sizeof pid);
        ::_exit(0);
    }
    pid_t pid = -1;
    pid_writer.reset();
    const size_t got = sys::read(pid_reader.get(), &pid, sizeof pid, "the server's pid");
    ::waitpid(middle, nullptr, 0);
    if (got != sizeof pid || pid < 0)
        throw Error(ErrorKind::host_forbids, "cannot start the image's server")
            .hint("raise the limit on processes (ulimit -u)");
    server.pidfd = sys::pidfd_open(pid);  // it waits for our byte, so the pid is still its own
    server.start = std::move(start_writer);
    return server;
}

void release_server(FuseServer& server) {
    server.fuse_fd.reset();
    ::send(server.start.get(), "", 1, MSG_NOSIGNAL);
    server.start.reset();
}

}  // namespace slipway::runtime
