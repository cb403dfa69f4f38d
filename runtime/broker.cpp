// Holds a session's namespaces, hands them out, and ends with the last member.
// Must not: enter the mount namespace it hands out, or keep a FUSE descriptor: either would keep
// the image's server from ending.
#include "broker.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "session_protocol.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/fault.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_node.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// How often ranks hear that their container is still being made.
constexpr std::chrono::milliseconds kHeartbeat{500};

struct Request {
    UniqueFd end;  ///< where the answer goes
    UniqueFd member;
    SessionRequest wanted;
};

std::vector<int> numbers_of(const std::vector<UniqueFd>& fds) {
    std::vector<int> numbers;
    for (const auto& fd : fds) numbers.push_back(fd.get());
    return numbers;
}

/// A rank that has gone is no error: its pidfd says so.
void send_answer(const UniqueFd& end, Answer answer, const std::string& text,
                 const std::vector<int>& fds = {}) {
    const std::string message = static_cast<char>(answer) + text;
    try {
        sys::send_message(end.get(), std::as_bytes(std::span(message)), fds);
    } catch (const SysError&) {
    }
}

class Broker {
 public:
    explicit Broker(BrokerStart start);
    /// Serve to the end of the session.
    void run();

 private:
    bool take_events(const std::vector<int>& ready);
    bool take_hand_over();
    bool take_requests();
    bool is_over();
    void reassure();
    std::optional<Request> next_request();
    bool lingers();
    int patience_ms() const;
    std::span<std::byte> buffer() const {
        return std::as_writable_bytes(std::span(buffer_.get(), kMaxSessionMessage));
    }

    BrokerStart start_;
    UniqueFd epoll_;
    std::map<int, UniqueFd> members_;  ///< pidfds, by their numbers
    std::vector<UniqueFd> waiting_;    ///< answers owed until the container is handed over
    std::vector<UniqueFd> namespaces_;
    UniqueFd server_;
    int creator_ = -1;  ///< the number of the maker among the members
    std::optional<Clock::time_point> lonely_since_;
    Clock::time_point told_;  ///< when those who wait last heard of us, all of them
    std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kMaxSessionMessage);
};

Broker::Broker(BrokerStart start) : start_(std::move(start)), epoll_(sys::epoll_create()) {
    sys::epoll_add(epoll_.get(), start_.socket.get());
    sys::epoll_add(epoll_.get(), start_.maker.get());
    sys::epoll_add(epoll_.get(), start_.creator.get());
    creator_ = start_.creator.get();
    members_.emplace(creator_, std::move(start_.creator));
}

void Broker::run() {
    while (take_requests()) {
        // Requests that come after this die with the socket, and their senders try again.
        if (members_.empty() && !lingers()) return;
        const auto ready = sys::epoll_wait(epoll_.get(), patience_ms());
        if (!take_events(ready)) return;
        reassure();
    }
}

/// False when the session serves nobody any more.
bool Broker::take_events(const std::vector<int>& ready) {
    // The hand-over first: a maker may have ended just after it.
    if (start_.maker && !take_hand_over()) return false;
    for (const int fd : ready) {
        if (server_ && fd == server_.get()) return false;
        if (members_.erase(fd) == 0) continue;
        // A maker that ends without a word has failed alone: whoever waits makes the session.
        if (start_.maker && namespaces_.empty() && fd == creator_) return false;
    }
    return true;
}

/// Take the container, or the error. False when there is nothing to serve.
bool Broker::take_hand_over() {
    auto received = sys::receive_now(start_.maker.get(), buffer());
    if (!received) return true;  // still being made
    if (received->size == 0) return false;
    const auto kind = static_cast<HandOver>(buffer_[0]);
    if (kind == HandOver::failed) {
        const std::string text = std::string(&buffer_[1], received->size - 1);
        take_requests();  // those that came meanwhile; later ones make a session themselves
        start_.socket.reset();
        for (const auto& end : waiting_) send_answer(end, Answer::failed, text);
        return false;
    }
    start_.maker.reset();
    namespaces_ = std::move(received->fds);
    if (kind == HandOver::served_container && !namespaces_.empty()) {
        server_ = std::move(namespaces_.back());
        namespaces_.pop_back();
        sys::epoll_add(epoll_.get(), server_.get());
    }
    for (const auto& end : waiting_) send_answer(end, Answer::entered, "", numbers_of(namespaces_));
    waiting_.clear();
    return !namespaces_.empty();
}

/// The next request of our own user, if one is there.
std::optional<Request> Broker::next_request() {
    while (true) {
        auto received = sys::receive_now(start_.socket.get(), buffer());
        if (!received) return std::nullopt;
        if (received->uid != ::geteuid() || received->fds.size() != 2) continue;
        auto wanted = parse_request({buffer_.get(), received->size});
        if (!wanted) continue;
        return Request{std::move(received->fds[0]), std::move(received->fds[1]),
                       std::move(*wanted)};
    }
}

/// False when the session was over before somebody asked: that request dies with the socket too.
bool Broker::take_requests() {
    while (auto request = next_request()) {
        if (is_over()) return false;
        if (request->wanted.identity != start_.identity) {
            send_answer(request->end, Answer::conflict, start_.identity);
            continue;
        }
        const int number = request->member.get();
        sys::epoll_add(epoll_.get(), number);
        members_.emplace(number, std::move(request->member));
        lonely_since_.reset();
        start_.linger_ms = std::max(start_.linger_ms, request->wanted.linger_ms);
        if (!namespaces_.empty()) {
            send_answer(request->end, Answer::entered, "", numbers_of(namespaces_));
            continue;
        }
        send_answer(request->end, Answer::wait, "");
        waiting_.push_back(std::move(request->end));
    }
    return true;
}

/// True when all members have ended, or the image's server, or the maker has failed, though no
/// event has told us yet: who asks after its end meets a session no more, however late its broker
/// runs.
bool Broker::is_over() {
    if (start_.maker && !take_hand_over()) return true;
    if (namespaces_.empty()) return false;  // its maker is at work
    if (server_ && sys::wait_process_end(server_.get(), 0)) return true;
    while (!members_.empty() && sys::wait_process_end(members_.begin()->first, 0))
        members_.erase(members_.begin());
    return members_.empty() && !lingers();
}

/// Those who wait give up on a broker that is silent, however much others have to say to it.
void Broker::reassure() {
    if (waiting_.empty() || Clock::now() - told_ < kHeartbeat) return;
    for (const auto& end : waiting_) send_answer(end, Answer::wait, "");
    told_ = Clock::now();
}

/// True while a session without members is kept for the next.
bool Broker::lingers() {
    if (start_.linger_ms == 0 || namespaces_.empty()) return false;
    if (!lonely_since_) lonely_since_ = Clock::now();
    return patience_ms() > 0;
}

int Broker::patience_ms() const {
    const auto until = [](Clock::time_point end) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
    };
    if (!waiting_.empty()) return until(told_ + kHeartbeat);
    if (!lonely_since_ || !members_.empty()) return -1;
    return until(*lonely_since_ + std::chrono::milliseconds(start_.linger_ms));
}

}  // namespace

DetachedFork start_broker(BrokerStart& start) {
    return DetachedFork("the session's broker", [&start](int creators_processor) {
        become_background("slipway-session",
                          {start.socket.get(), start.maker.get(), start.creator.get()},
                          creators_processor);
        try {
            fault::point("broker.started");
            Broker(std::move(start)).run();
        } catch (const std::exception&) {  // whoever waits sees the end and tries again
        }
        ::_exit(0);
    });
}

}  // namespace slipway::runtime
