// Follows a client to its processor and answers there when nothing else is to be done.
// Must not: be the only one who could answer.
#include "companion.hpp"

#include <algorithm>
#include <system_error>

#include "requests.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::image::squashfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGuardEvery{4};
constexpr unsigned kMostLate = 2;  // times in a row that the guard had to answer
constexpr milliseconds kFirstPause{100}, kLongestPause{60'000};
constexpr uint64_t kWorked = 1000;  // requests answered since the last failure: it was a chance
constexpr unsigned kLookFirst = 4,
                   kLookLast = 64;  // requests that came from elsewhere, as it seems
constexpr unsigned kMostMoves = 8;  // in a row: this kernel wakes it elsewhere
// A client that is not the one before counts as much as so many requests of the same one.
constexpr unsigned kStranger = 16, kMostStrangers = 64;

/// Where a client runs.
class Place {
 public:
    /// True when it was elsewhere. What cannot be found out, or may not be, changes nothing.
    bool go_to(uint32_t client) {
        const auto facts = read_process(static_cast<int>(client));
        if (!facts || facts->processor == processor_) return false;
        if (sys::run_on_processor(facts->processor)) processor_ = facts->processor;
        return true;
    }

 private:
    int processor_ = -1;
};

}  // namespace

Companion::~Companion() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        following_ = false;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

bool Companion::may_follow() const { return Clock::now() >= not_before_; }

void Companion::stop_following() {
    const std::lock_guard lock(mutex_);
    following_ = false;
    changed_.notify_all();
}

void Companion::fail() {
    const std::lock_guard lock(mutex_);
    const uint64_t answered = answered_;
    pause_ = answered - failed_at_ >= kWorked ? kFirstPause : std::min(pause_ * 2, kLongestPause);
    failed_at_ = answered;
    not_before_ = Clock::now() + pause_;
    following_ = false;
    changed_.notify_all();
}

bool Companion::answer_for(uint32_t client, Requests& requests, const std::function<void()>& answer,
                           const std::function<bool()>& alone) {
    {
        const std::lock_guard lock(mutex_);
        if (!parked_) return true;  // it has not come back yet
        client_ = client;
        following_ = true;
        parked_ = false;
    }
    changed_.notify_all();
    if (!thread_.joinable()) try {
            thread_ = std::thread([this] { work(); });
        } catch (const std::system_error&) {  // the user's limit
            parked_ = true;
            fail();
            return true;
        }
    for (unsigned late = 0; following_ && alone();) {
        requests.wait();
        const uint64_t before = answered_;
        {
            std::unique_lock lock(mutex_);
            if (changed_.wait_for(lock, kGuardEvery, [this] { return !following_; })) break;
        }
        if (answered_ != before) {
            late = 0;
            continue;
        }
        if (!requests.another_waits()) continue;
        if (!requests.take()) break;
        answer();
        if (!waits_for_disk_ && ++late >= kMostLate) fail();
    }
    stop_following();
    return !ended_;
}

bool Companion::wait_for_client(uint32_t& client) {
    std::unique_lock lock(mutex_);
    if (!following_) parked_ = true;
    changed_.wait(lock, [this] { return stop_ || following_; });
    client = client_;
    return !stop_;
}

void Companion::work() {
    try {
        if (sys::run_only_when_idle()) {
            set_patience(this);
            Requests requests(session_);
            for (uint32_t client = 0; wait_for_client(client);) answer_in_turns(client, requests);
            return;
        }
    } catch (const std::exception&) {  // no memory
    }
    const std::lock_guard lock(mutex_);
    not_before_ = Clock::time_point::max();
    following_ = false;
    parked_ = true;
    changed_.notify_all();
}

void Companion::answer_in_turns(uint32_t client, Requests& requests) {
    Place place;
    place.go_to(client);
    unsigned far = 0, look_after = kLookFirst, moves = 0, strangers = 0;
    while (following_) {
        if (!requests.take()) {
            failure_ = requests.failure();
            ended_ = true;
            return stop_following();
        }
        requests.answer();
        ++answered_;
        waits_for_disk_ = false;
        if (const uint32_t asks = requests.client(); asks != client && asks != 0) {
            strangers += client == 0 ? 0 : kStranger;
            client = asks;
            far = look_after = kLookFirst;
            if (strangers > kMostStrangers) return stop_following();
        } else if (strangers > 0) {
            --strangers;
        }
        // Who was woken here asks again before we see that there is nothing to do.
        if (far < look_after && requests.another_waits()) {
            far = 0;
            continue;
        }
        if (++far < look_after) continue;
        far = 0;
        if (!place.go_to(client)) {
            look_after = std::min(look_after * 2, kLookLast);
            moves = 0;
        } else if (look_after = kLookFirst; ++moves >= kMostMoves) {
            return fail();
        }
    }
}

}  // namespace slipway::image::squashfs
