// A rank's side of the session protocol.
// Must not: wait without a limit, or trust an answer of another user.
#include "session.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "broker.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

constexpr int kMaxTries = 64;
constexpr int kAnswerTimeoutMs = 10'000;
constexpr size_t kMaxAnswer = 64 << 10;

enum class Outcome { entered, again, unusable };

/// Bound how long a full queue of the broker's socket can hold us.
void limit_sending(int socket) {
    const timeval limit{kAnswerTimeoutMs / 1000, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void enter_namespaces(const sys::Received& received) {
    // The user namespace first: it gives the right to enter the other (facts of setns(2)).
    sys::setns(received.fds[0].get(), CLONE_NEWUSER, "the session");
    sys::setns(received.fds[1].get(), CLONE_NEWNS, "the session");
}

Outcome take_answer(const UniqueFd& end) {
    pollfd ready{end.get(), POLLIN, 0};
    int count = 0;
    while ((count = ::poll(&ready, 1, kAnswerTimeoutMs)) < 0 && errno == EINTR) continue;
    if (count == 0) {
        log::warning("the session of this job step does not answer; using a private one");
        return Outcome::unusable;
    }
    std::string text(kMaxAnswer, '\0');
    const auto received = sys::receive_now(end.get(), std::as_writable_bytes(std::span(text)));
    if (!received || received->size == 0) return Outcome::again;  // the broker has gone
    if (received->uid != ::geteuid()) {
        log::warning("another user answers for the session of this job step; using a private one");
        return Outcome::unusable;
    }
    if (text[0] == static_cast<char>(Answer::failed))
        throw parse_error(std::string_view(text).substr(1, received->size - 1));
    if (received->fds.size() != 2) return Outcome::unusable;
    enter_namespaces(*received);
    return Outcome::entered;
}

Outcome ask(const std::string& name, const UniqueFd& self) {
    auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
    sys::pass_credentials(ours.get());
    const UniqueFd socket = sys::datagram_socket();
    limit_sending(socket.get());
    const std::array<int, 2> fds{theirs.get(), self.get()};
    const std::array<std::byte, 1> data{std::byte{kProtocolByte}};
    if (const int error = sys::send_to_abstract(socket.get(), name, data, fds); error != 0) {
        if (error == ECONNREFUSED || error == ECONNRESET || error == ENOENT) return Outcome::again;
        log::warning("the session of this job step does not listen ({}); using a private one",
                     errno_name(error));
        return Outcome::unusable;
    }
    theirs.reset();
    return take_answer(ours);
}

void pause_before(int attempt) {
    if (attempt < 4) return;  // the usual race is over at once
    const timespec wait{0, attempt * 200'000L};
    ::nanosleep(&wait, nullptr);
}

}  // namespace

std::string session_socket_name(const std::string& key) { return "slipway-session-" + key; }

bool enter_session(const RunPlan& plan) {
    const std::string name = session_socket_name(plan.session_key);
    const UniqueFd self = sys::pidfd_open(::getpid());
    for (int attempt = 0; attempt < kMaxTries; ++attempt) {
        pause_before(attempt);
        UniqueFd socket = sys::datagram_socket();
        if (sys::bind_abstract(socket.get(), name)) {
            sys::pass_credentials(socket.get());
            start_broker(plan, socket, self);
        }
        socket.reset();
        switch (ask(name, self)) {
            case Outcome::entered:
                return true;
            case Outcome::unusable:
                return false;
            case Outcome::again:
                break;
        }
    }
    log::warning("no session after {} tries; using a private one", kMaxTries);
    return false;
}

}  // namespace slipway::runtime
