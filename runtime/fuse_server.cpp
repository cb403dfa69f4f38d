// Starts the server of squashfs files outside of the mount namespace that it serves.
// Must not: mount, or stay an ancestor or child of the user's command.
#include "fuse_server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "overlay.hpp"
#include "run_plan.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/fault.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"
#include "slipway/image/squashfs.hpp"
#include "start_files.hpp"
#include "tidy.hpp"

namespace slipway::runtime {

namespace {

constexpr unsigned kMaxThreads = 4;
constexpr int kLockTries = 2000;
constexpr int kLastMomentMs = 100;
constexpr size_t kMaxMessage = 128 << 10;
constexpr int kMostKeptBytes = 4 << 20;
constexpr char kServeMessage = 's', kTidyMessage = 't';

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

/// What the server process holds.
struct Service {
    const RunPlan& plan;
    struct File {
        size_t step;
        std::shared_ptr<const image::SquashfsImage> image;
    };
    std::vector<File> files;
    const std::vector<FuseServer::Device>& devices;
    UniqueFd lock;  ///< of the kept directory
};

bool is_served(const MountStep& step) {
    return step.kind == MountStep::Kind::image_squashfs ||
           step.kind == MountStep::Kind::data_squashfs;
}

/// What the plan mounts, and would make a place for. What cannot be looked at is not there either
/// when it is to be mounted, and is told then.
std::vector<image::SquashfsServerOptions::MountPoint> missing_mount_points(const RunPlan& plan) {
    std::vector<image::SquashfsServerOptions::MountPoint> points;
    for (const MountStep& step : plan.mounts) {
        if (step.if_missing != MountStep::IfMissing::create) continue;
        bool directory = step.kind != MountStep::Kind::file;
        if (step.kind == MountStep::Kind::bind) {
            const auto status = sys::stat_if_exists(AT_FDCWD, step.source);
            if (!status) continue;
            directory = S_ISDIR(status->st_mode);
        }
        points.push_back({step.destination, directory});
    }
    return points;
}

Digest seal_of(const MountStep& step) {
    return step.seal.empty() ? Digest() : Digest::parse(step.seal);
}

image::SquashfsServerOptions server_options(const Service& service, size_t index) {
    const size_t number = service.files[index].step;
    image::SquashfsServerOptions options;
    options.fuse_fd = service.devices[index].fd.get();
    options.image = service.files[index].image;
    options.show_uid = service.plan.uid_inside;
    options.show_gid = service.plan.gid_inside;
    options.threads = std::clamp(std::thread::hardware_concurrency(), 2u, kMaxThreads);
    if (number == 0) {
        StartFiles start = files_of_start(service.plan);
        options.programs_ahead = std::move(start.programs);
        options.files_ahead = std::move(start.files);
        options.mount_points = missing_mount_points(service.plan);
    }
    return options;
}

/// Null when it cannot be: nobody is left to tell, users of the image see ENOTCONN.
std::unique_ptr<image::SquashfsServer> make_server(const Service& service, size_t index) {
    try {
        return std::make_unique<image::SquashfsServer>(server_options(service, index));
    } catch (const std::exception&) {
        return nullptr;
    }
}

/// Returns when the file system's last mount namespace is gone.
bool serve_file(image::SquashfsServer* server) {
    try {
        return server != nullptr && server->serve() == 0;
    } catch (const std::exception&) {  // as above
        return false;
    }
}

void wait_for_unmount(const UniqueFd& watch) {
    alignas(inotify_event) char buffer[sizeof(inotify_event) + NAME_MAX + 1];
    while (true) {
        const ssize_t size = ::read(watch.get(), buffer, sizeof buffer);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return;
        const auto* event = reinterpret_cast<const inotify_event*>(buffer);
        if ((event->mask & (IN_UNMOUNT | IN_IGNORED)) != 0) return;
    }
}

/// A directory with --write may be shared with other containers: the last one tidies up.
void tidy(const Service& service, const std::string& text, const UniqueFd& watch) {
    wait_for_unmount(watch);
    if (!service.lock || !sys::try_flock(service.lock.get(), LOCK_EX)) return;
    remove_leftovers(kept_directory(service.plan), parse_leftovers(text));
    if (service.plan.mounts[1].kind == MountStep::Kind::overlay)
        remove_work(service.plan.mounts[1].source);
}

/// Returns the message's size, 0 at the end. Who closes the socket with our pidfd unread resets it,
/// which the kernel tells once, before what was sent.
size_t next_message(const UniqueFd& start, std::string& message, std::vector<UniqueFd>& fds) {
    for (bool reset = false;; reset = true) {
        try {
            return sys::receive_message(start.get(), std::as_writable_bytes(std::span(message)),
                                        fds);
        } catch (const SysError& error) {
            if (error.errno_value() != ECONNRESET || reset) throw;
        }
    }
}

/// End at once: a device that nobody serves answers its users only when it is closed.
[[noreturn]] void give_up() { ::_exit(kExitOwnFailure); }

/// Serve what the messages say is mounted, until it is unmounted.
bool serve_all(const Service& service, const UniqueFd& start) {
    const bool keeps = !kept_directory(service.plan).empty();
    // While the namespace is made, the files of its start are read already.
    std::vector<std::unique_ptr<image::SquashfsServer>> servers(service.files.size());
    if (!servers.empty()) servers.front() = make_server(service, 0);
    std::vector<std::thread> threads;
    bool good = true;
    std::vector<UniqueFd> watch;
    std::string leftovers, message(keeps ? kMaxMessage : 3, '\0');
    for (size_t released = 0; keeps || released < service.files.size();) {
        const size_t size = next_message(start, message, watch);
        if (size == 0) break;
        if (message[0] == kTidyMessage) {
            leftovers = message.substr(1, size - 1);
            continue;
        }
        const size_t index = static_cast<unsigned char>(message[1]) +
                             256 * static_cast<size_t>(static_cast<unsigned char>(message[2]));
        if (!servers[index]) servers[index] = make_server(service, index);
        if (!servers[index]) give_up();
        image::SquashfsServer* server = servers[index].get();
        if (++released == service.files.size() && !keeps)
            good = serve_file(server) && good;  // the usual, only one: no thread for it
        else
            try {
                threads.emplace_back([server] {
                    if (!serve_file(server)) give_up();
                });
            } catch (const std::system_error&) {
                give_up();
            }
    }
    for (auto& thread : threads) thread.join();
    if (!leftovers.empty() && !watch.empty()) tidy(service, leftovers, watch.front());
    return good;
}

/// Says who has a kept overlay, for those who want it too.
void sign_lock(const Service& service) {
    const auto& mounts = service.plan.mounts;
    if (!service.lock || mounts.size() < 2 || mounts[1].kind != MountStep::Kind::overlay) return;
    const std::string owner = fmt::format("process {}", ::getpid());
    sys::ftruncate(service.lock.get(), 0, "the overlay's lock");
    sys::pwrite_all(service.lock.get(), owner.data(), owner.size(), 0, "the overlay's lock");
}

/// Our number could be another's by the time somebody asks for it. Who has no session to hand it to
/// may be gone already; what it told us lies in the socket.
void send_pidfd(const UniqueFd& start) {
    try {
        sys::send_message(start.get(), std::as_bytes(std::span("p", 1)),
                          std::array{sys::pidfd_open(::getpid()).get()});
    } catch (const SysError& error) {
        if (error.errno_value() != EPIPE) throw;
    }
}

/// Blocks come and go: memory that was given back would be faulted in again for each.
void keep_freed_blocks() {
    ::mallopt(M_MMAP_THRESHOLD, kMostKeptBytes);
    ::mallopt(M_TRIM_THRESHOLD, kMostKeptBytes);
}

[[noreturn]] void serve(const Service& service, const UniqueFd& start, int creators_processor) {
    std::vector<int> kept{start.get()};
    for (const auto& device : service.devices) kept.push_back(device.fd.get());
    for (const auto& file : service.files) kept.push_back(file.image->fd());
    if (service.lock) kept.push_back(service.lock.get());
    const std::vector<int> of_plan = descriptors_of(service.plan);
    kept.insert(kept.end(), of_plan.begin(), of_plan.end());
    become_background("slipway-fuse", kept, creators_processor);
    keep_freed_blocks();
    bool good = false;
    try {
        send_pidfd(start);
        sign_lock(service);
        fault::point("server.started");
        good = serve_all(service, start);
    } catch (const std::exception&) {  // as above
    }
    ::_exit(good ? 0 : kExitOwnFailure);
}

/// Open and check the file, if it is not open yet, and a device for it.
void open_file(const MountStep& step, size_t number, Service& service, FuseServer& server) {
    try {
        auto image = number == 0 ? service.plan.image_file : nullptr;
        if (!image)
            image = std::make_shared<image::SquashfsImage>(sys::open(step.source, O_RDONLY),
                                                           step.source, step.image_offset_bytes,
                                                           seal_of(step));
        server.devices.push_back({number, open_fuse(step.source)});
        service.files.push_back({number, std::move(image)});
    } catch (Error& error) {
        if (step.kind == MountStep::Kind::data_squashfs) error.note("requested by: " + step.origin);
        throw;
    }
}

/// The lock by which containers that keep changes in one directory know of each other.
UniqueFd lock_kept(const RunPlan& plan) {
    if (plan.mounts.size() > 1 && plan.mounts[1].kind == MountStep::Kind::overlay)
        return lock_overlay(plan.mounts[1]);
    UniqueFd lock = sys::open(plan.mounts.front().source, O_RDONLY | O_DIRECTORY);
    for (int tries = 0; tries < kLockTries; ++tries) {  // somebody tidies up, a matter of moments
        if (sys::try_flock(lock.get(), LOCK_SH)) return lock;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};  // this file system has no locks: mount points that are made stay
}

}  // namespace

bool needs_server(const RunPlan& plan) {
    return std::any_of(plan.mounts.begin(), plan.mounts.end(), is_served) ||
           !kept_directory(plan).empty();
}

FuseServer start_fuse_server(const RunPlan& plan) {
    FuseServer server;
    Service service{plan, {}, server.devices, {}};
    for (size_t i = 0; i < plan.mounts.size(); ++i)
        if (is_served(plan.mounts[i])) open_file(plan.mounts[i], i, service, server);
    if (!kept_directory(plan).empty()) service.lock = lock_kept(plan);
    auto [start_reader, start_writer] = sys::socketpair(SOCK_SEQPACKET);
    server.forked.emplace("the image's server", [&, &start = start_reader](int creators_processor) {
        serve(service, start, creators_processor);
    });
    server.start = std::move(start_writer);
    return server;
}

UniqueFd take_server_pidfd(FuseServer& server) {
    std::array<std::byte, 1> byte{};
    std::vector<UniqueFd> fds;
    try {
        if (sys::receive_message(server.start.get(), byte, fds) == 0 || fds.empty()) return {};
    } catch (const SysError&) {  // it ended before it read what we told it
        return {};
    }
    return std::move(fds.front());
}

bool server_has_ended(FuseServer& server) {
    if (!server.pidfd) server.pidfd = take_server_pidfd(server);
    if (!server.pidfd) return true;
    return sys::wait_process_end(server.pidfd.get(), kLastMomentMs);
}

int fuse_device(const FuseServer& server, size_t step) {
    for (const auto& device : server.devices)
        if (device.step == step) return device.fd.get();
    throw Error(ErrorKind::internal, "there is no server for a squashfs file");
}

void release_device(FuseServer& server, size_t step) {
    for (size_t i = 0; i < server.devices.size(); ++i) {
        if (server.devices[i].step != step) continue;
        server.devices[i].fd.reset();
        const char message[] = {kServeMessage, static_cast<char>(i & 0xff),
                                static_cast<char>(i >> 8)};
        ::send(server.start.get(), message, sizeof message, MSG_NOSIGNAL);
    }
}

void send_leftovers(FuseServer& server, const std::string& text, const UniqueFd& watch) {
    const std::string message = kTidyMessage + text;
    if (message.size() > kMaxMessage) return;  // mount points without end: they stay
    const std::array<int, 1> fds{watch.get()};
    sys::send_message(server.start.get(), std::as_bytes(std::span(message)), fds);
}

}  // namespace slipway::runtime
