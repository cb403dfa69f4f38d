// Makes a session's namespaces, hands them out, and ends with the last member.
// Must not: enter the mount namespace it hands out, or keep the FUSE descriptor: either would keep
// the image's server from ending.
#include "broker.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <span>
#include <vector>

#include "container.hpp"
#include "fuse_server.hpp"
#include "namespaces.hpp"
#include "session.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

constexpr int kErrorTimeoutMs = 2'000;

struct Namespaces {
    UniqueFd user, mount, server;  ///< server: its pidfd, empty for directories
};

/// Set-up was cut off by a signal. There is nothing to report: whoever waits asks again.
struct CutOff {};

bool has_ended(const UniqueFd& process) {
    pollfd ended{process.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) > 0;
}

/// Runs in a process of its own, which ends as soon as it has handed over its mount namespace.
int make_mount_namespace(const RunPlan& plan, FuseServer* server, const UniqueFd& answer,
                         const UniqueFd& broker) {
    sys::set_parent_death_signal(SIGKILL);
    if (has_ended(broker)) return 1;
    sys::unshare(CLONE_NEWNS);
    isolate_mounts();
    const UniqueFd mount = sys::open("/proc/self/ns/mnt", O_RDONLY);
    assemble_container(plan, server);
    const std::array<int, 1> fds{mount.get()};
    sys::send_message(answer.get(), std::as_bytes(std::span("m", 1)), fds);
    return 0;
}

Namespaces make_namespaces(const RunPlan& plan) {
    enter_user_namespace(0, {plan.uid_inside, plan.gid_inside, plan.uid_outside, plan.gid_outside});
    Namespaces made;
    made.user = sys::open("/proc/self/ns/user", O_RDONLY);
    std::optional<FuseServer> server;
    if (needs_server(plan)) server = start_fuse_server(plan);
    const UniqueFd self = sys::pidfd_open(::getpid());
    auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
    ForkedChild helper = fork_child([&, &answer = theirs] {
        return make_mount_namespace(plan, server ? &*server : nullptr, answer, self);
    });
    theirs.reset();
    if (server) {
        server->fuse_fd.reset();
        server->start.reset();
        made.server = std::move(server->pidfd);
    }
    ExitStatus status;
    try {
        status = wait_forked(helper);
    } catch (const Error&) {  // the helper's own, unless its image was taken away from it
        if (made.server && has_ended(made.server)) throw CutOff{};
        throw;
    }
    std::array<std::byte, 1> byte{};
    auto received = sys::receive_now(ours.get(), byte);
    if (!status.success() || !received || received->fds.size() != 1) throw CutOff{};
    made.mount = UniqueFd(received->fds[0].release());
    return made;
}

struct Request {
    UniqueFd end;  ///< where the answer goes
    UniqueFd member;
};

/// The next request of our own user, if one is there.
std::optional<Request> next_request(const UniqueFd& socket) {
    while (true) {
        std::array<std::byte, 8> data{};
        auto received = sys::receive_now(socket.get(), data);
        if (!received) return std::nullopt;
        if (received->uid != ::geteuid() || received->fds.size() != 2 ||
            data[0] != std::byte{kProtocolByte})
            continue;
        return Request{UniqueFd(received->fds[0].release()), UniqueFd(received->fds[1].release())};
    }
}

void answer_entered(const Request& request, const Namespaces& made) {
    const char byte = static_cast<char>(Answer::entered);
    const std::array<int, 2> fds{made.user.get(), made.mount.get()};
    try {
        sys::send_message(request.end.get(), std::as_bytes(std::span(&byte, 1)), fds);
    } catch (const SysError&) {  // the rank has gone: its pidfd says so
    }
}

/// Tell the error to who waits now; later ranks make a session, and find out, themselves.
void answer_failed(const UniqueFd& socket, const Error& error) {
    const std::string text = static_cast<char>(Answer::failed) + error.serialize();
    pollfd ready{socket.get(), POLLIN, 0};
    ::poll(&ready, 1, kErrorTimeoutMs);
    while (auto request = next_request(socket)) {
        try {
            sys::send_message(request->end.get(), std::as_bytes(std::span(text)), {});
        } catch (const SysError&) {
        }
    }
}

/// Wait until a request comes, a member leaves or the server ends. A member leaves when its
/// process, the user's command by then, has ended; what it left behind in the background keeps
/// the mount namespace itself.
void serve_members(const UniqueFd& socket, UniqueFd creator, const Namespaces& made) {
    std::vector<UniqueFd> members;
    members.push_back(std::move(creator));
    while (true) {
        while (auto request = next_request(socket)) {
            members.push_back(std::move(request->member));
            answer_entered(*request, made);
        }
        if (members.empty()) return;  // requests that come now die with the socket and are repeated
        std::vector<pollfd> waits{{socket.get(), POLLIN, 0}};
        if (made.server) waits.push_back({made.server.get(), POLLIN, 0});
        for (const auto& member : members) waits.push_back({member.get(), POLLIN, 0});
        ::poll(waits.data(), waits.size(), -1);
        if (made.server && waits[1].revents != 0) return;  // this session serves nobody any more
        std::erase_if(members, has_ended);
    }
}

[[noreturn]] void run_broker(const RunPlan& plan, const UniqueFd& socket, UniqueFd creator) {
    become_background("slipway-session", {socket.get(), creator.get()});
    try {
        const Namespaces made = make_namespaces(plan);
        serve_members(socket, std::move(creator), made);
    } catch (const Error& error) {
        answer_failed(socket, error);
    } catch (const CutOff&) {
    } catch (const std::exception& error) {
        answer_failed(socket, Error(ErrorKind::internal, error.what()));
    }
    ::_exit(0);
}

}  // namespace

void start_broker(const RunPlan& plan, const UniqueFd& socket, const UniqueFd& creator) {
    const pid_t middle = ::fork();
    if (middle < 0)
        throw SysError("cannot start the session's broker", "fork")
            .hint("raise the limit on processes (ulimit -u)");
    if (middle == 0) {  // forks once more, so that the broker is not the user's command's child
        const pid_t pid = ::fork();
        if (pid == 0) run_broker(plan, socket, UniqueFd(creator.get()));
        ::_exit(pid < 0 ? 1 : 0);
    }
    int status = 0;
    while (::waitpid(middle, &status, 0) < 0 && errno == EINTR) continue;
    if (status != 0)
        throw Error(ErrorKind::host_forbids, "cannot start the session's broker")
            .hint("raise the limit on processes (ulimit -u)");
}

}  // namespace slipway::runtime
