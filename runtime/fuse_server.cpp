// Starts the FUSE server of an image outside of the mount namespace that it serves.
// Must not: mount, or stay an ancestor or child of the user's command.
#include "fuse_server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <thread>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/fault.hpp"
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
    try {  // its number could be another's by the time somebody asks for it
        sys::send_message(start.get(), std::as_bytes(std::span("p", 1)),
                          std::array{sys::pidfd_open(::getpid()).get()});
    } catch (const Error&) {
        ::_exit(kExitOwnFailure);
    }
    fault::point("server.started");
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

FuseServer start_fuse_server(const RunPlan& plan) {
    const std::string& path = plan.mounts.front().source;
    const UniqueFd image = sys::open(path, O_RDONLY);
    image::check_squashfs(image.get(), path, plan.mounts.front().image_offset_bytes);
    FuseServer server;
    server.fuse_fd = open_fuse(path);
    auto [start_reader, start_writer] = sys::socketpair(SOCK_STREAM);
    server.forked.emplace("the image's server",
                          [&, &own_start = start_reader, &fd = server.fuse_fd] {
                              serve(plan, fd, image, own_start);
                          });
    server.start = std::move(start_writer);
    return server;
}

void release_server(FuseServer& server) {
    server.fuse_fd.reset();
    ::send(server.start.get(), "", 1, MSG_NOSIGNAL);
}

UniqueFd take_server_pidfd(FuseServer& server) {
    std::array<std::byte, 1> byte{};
    std::vector<UniqueFd> fds;
    if (sys::receive_message(server.start.get(), byte, fds) == 0 || fds.empty()) return {};
    return std::move(fds.front());
}

bool server_has_ended(FuseServer& server) {
    if (!server.pidfd) server.pidfd = take_server_pidfd(server);
    if (!server.pidfd) return true;
    pollfd ended{server.pidfd.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) > 0;
}

}  // namespace slipway::runtime
