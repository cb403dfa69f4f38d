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
#include <chrono>
#include <memory>
#include <span>

#include "broker.hpp"
#include "namespaces.hpp"
#include "session_identity.hpp"
#include "session_protocol.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/fault.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_node.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMaxTries = 64;
constexpr milliseconds kOwnerCheckAfter{100};  ///< then we ask the kernel whose socket it is
constexpr milliseconds kSilenceLimit{2'000};   ///< a living broker says something well before
constexpr milliseconds kMakingLimit{60'000};   ///< for the container of a maker that still works

enum class Outcome { entered, again, unusable };

class Question {
 public:
    explicit Question(const RunPlan& plan)
        : plan_(plan),
          name_(session_socket_name(plan.session_key)),
          self_(sys::pidfd_open(::getpid())) {}

    /// Become the session's maker, if nobody has its name.
    std::optional<SessionDuty> claim(const UniqueFd& socket);
    /// Ask who has the name, and enter.
    Outcome ask(const UniqueFd& socket);

 private:
    bool send_request(const UniqueFd& socket, const UniqueFd& end, Outcome& failure) const;
    Outcome take_answers(const UniqueFd& end) const;
    Outcome take_answer(sys::Received& received, std::string_view text) const;
    bool is_foreign() const;
    std::string called() const {
        return plan_.session_name.empty() ? "the session of this job step"
                                          : "the session " + slipway::quoted(plan_.session_name);
    }

    const RunPlan& plan_;
    std::string name_;
    UniqueFd self_;
};

std::optional<SessionDuty> Question::claim(const UniqueFd& socket) {
    if (!sys::bind_abstract(socket.get(), name_)) return std::nullopt;
    fault::point("session.bound");
    sys::pass_credentials(socket.get());
    auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
    BrokerStart start{UniqueFd(::dup(socket.get())), std::move(theirs),
                      UniqueFd(::dup(self_.get())), plan_.session_identity, plan_.linger_ms};
    DetachedFork forked = start_broker(start);
    fault::point("session.broker-forked");
    return SessionDuty(std::move(ours), std::move(forked));
}

/// Warn and return true when another user holds our session's name.
bool Question::is_foreign() const {
    const auto owner = sys::abstract_owner(name_);
    if (!owner || *owner == ::geteuid()) return false;
    log::warning("user {} occupies the name of {}; using a private one", *owner, called());
    return true;
}

/// Send the request within the limit of silence. False with the reason when it cannot be delivered.
bool Question::send_request(const UniqueFd& socket, const UniqueFd& end, Outcome& failure) const {
    const timeval step{0, static_cast<suseconds_t>(kOwnerCheckAfter.count() * 1000)};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &step, sizeof step);
    const std::string request = to_message({plan_.linger_ms, plan_.session_identity});
    const auto data = std::as_bytes(std::span(request));
    const auto deadline = Clock::now() + kSilenceLimit;
    for (bool first = true;; first = false) {
        const int error =
            sys::send_to_abstract(socket.get(), name_, data, std::array{end.get(), self_.get()});
        if (error == 0) return true;
        failure = Outcome::unusable;
        if (error == EAGAIN) {  // the queue is full
            if (first && is_foreign()) return false;
            if (Clock::now() < deadline) continue;
        }
        if (error == ECONNREFUSED || error == ECONNRESET || error == ENOENT)
            failure = Outcome::again;
        else
            log::warning("{} does not listen ({}); using a private one", called(),
                         errno_name(error));
        return false;
    }
}

Outcome Question::take_answer(sys::Received& received, std::string_view text) const {
    if (received.uid != ::geteuid()) {
        log::warning("user {} answers for {}; using a private one",
                     received.uid.value_or(static_cast<uid_t>(-1)), called());
        return Outcome::unusable;
    }
    if (text[0] == static_cast<char>(Answer::failed)) throw parse_error(text.substr(1));
    if (text[0] == static_cast<char>(Answer::conflict)) {
        Error error(ErrorKind::conflict, called() + " runs another plan");
        for (auto& line : identity_differences(plan_.session_identity, std::string(text.substr(1))))
            error.note(std::move(line));
        throw std::move(error).hint(
            "choose another name with --session, or wait until the session has ended");
    }
    if (received.fds.size() != plan_.namespaces.size()) return Outcome::unusable;
    fault::point("session.answered");
    forbid_full_program();
    // A rank that came from another user namespace may not enter the first, and stays as it is.
    for (size_t i = 0; i < received.fds.size(); ++i)
        if (::setns(received.fds[i].get(), namespace_kind(plan_.namespaces[i]).flag) != 0) {
            const SysError error("cannot enter " + called(), "setns");
            if (i > 0) throw error;
            log::warning("{}; using a private one", error.message());
            return Outcome::unusable;
        }
    return Outcome::entered;
}

Outcome Question::take_answers(const UniqueFd& end) const {
    const auto buffer = std::make_unique_for_overwrite<char[]>(kMaxSessionMessage);
    const auto give_up = Clock::now() + kMakingLimit;
    bool checked = false;
    for (auto heard = Clock::now(); Clock::now() < give_up;) {
        pollfd ready{end.get(), POLLIN, 0};
        const int count = ::poll(
            &ready, 1, static_cast<int>((checked ? kSilenceLimit : kOwnerCheckAfter).count()));
        if (count < 0) continue;  // a signal that somebody handles
        if (count == 0) {
            if (!checked && is_foreign()) return Outcome::unusable;
            checked = true;
            if (Clock::now() - heard < kSilenceLimit) continue;
            log::warning("{} does not answer; using a private one", called());
            return Outcome::unusable;
        }
        auto received = sys::receive_now(
            end.get(), std::as_writable_bytes(std::span(buffer.get(), kMaxSessionMessage)));
        if (!received || received->size == 0) return Outcome::again;  // the broker has gone
        const std::string_view text(buffer.get(), received->size);
        if (text[0] != static_cast<char>(Answer::wait)) return take_answer(*received, text);
        heard = Clock::now();
        checked = true;
    }
    log::warning("{} is not ready after {} s; using a private one", called(),
                 kMakingLimit.count() / 1000);
    return Outcome::unusable;
}

Outcome Question::ask(const UniqueFd& socket) {
    auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
    sys::pass_credentials(ours.get());
    Outcome failure = Outcome::again;
    if (!send_request(socket, theirs, failure)) return failure;
    theirs.reset();
    fault::point("session.asked");
    return take_answers(ours);
}

void pause_before(int attempt) {
    if (attempt < 4) return;  // the usual race is over at once
    const timespec wait{0, attempt * 200'000L};
    ::nanosleep(&wait, nullptr);
}

}  // namespace

void SessionDuty::hand_over(const std::vector<int>& namespaces, int server) {
    std::vector<int> fds = namespaces;
    if (server >= 0) fds.push_back(server);
    const char kind =
        static_cast<char>(server >= 0 ? HandOver::served_container : HandOver::container);
    try {
        sys::send_message(broker_.get(), std::as_bytes(std::span(&kind, 1)), fds);
    } catch (const SysError& error) {
        log::verbose("the session's broker has gone: {}", error.message());
    }
    broker_.reset();
}

void SessionDuty::fail(const Error& error) {
    const std::string text = static_cast<char>(HandOver::failed) + error.serialize();
    try {
        sys::send_message(broker_.get(), std::as_bytes(std::span(text)), {});
        // Whoever starts after our end shall find out anew: the name is given up by then.
        pollfd ended{broker_.get(), POLLIN, 0};
        ::poll(&ended, 1, static_cast<int>(kSilenceLimit.count()));
    } catch (const SysError&) {  // then nobody waits
    }
    broker_.reset();
}

std::string session_socket_name(const std::string& key) { return "slipway-session-" + key; }

SessionEntry enter_session(const RunPlan& plan) {
    Question question(plan);
    for (int attempt = 0; attempt < kMaxTries; ++attempt) {
        pause_before(attempt);
        const UniqueFd socket = sys::datagram_socket();
        if (auto duty = question.claim(socket)) return {SessionEntry::Kind::maker, std::move(duty)};
        const Outcome outcome = question.ask(socket);
        if (outcome == Outcome::entered) return {SessionEntry::Kind::entered, std::nullopt};
        if (outcome == Outcome::unusable) return {};
    }
    log::warning("no session after {} tries; using a private one", kMaxTries);
    return {};
}

}  // namespace slipway::runtime
