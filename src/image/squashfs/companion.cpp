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

constexpr milliseconds kGuardEvery{4}, kGuardIdle{20};
constexpr milliseconds kForDisk{100};  // that it may wait for one before it counts as stuck
constexpr milliseconds kIdle{500};     // without a request: then nobody needs to guard
constexpr milliseconds kFirstPause{100}, kLongestPause{60'000};
constexpr uint64_t kWorked = 1000;  // requests answered since the last failure: it was a chance
// Requests that came from elsewhere, as it seems, until that is looked after.
constexpr unsigned kLookFirst = 4, kLookLast = 64;
constexpr unsigned kMostLooks = 8;  // in a row that found it moved, or not at all
// A client that is not the one before counts as much as so many requests of the same one.
constexpr unsigned kStranger = 16, kMostStrangers = 64;

/// Where a client runs.
class Place {
 public:
    enum class Found { same, elsewhere, nowhere };
    explicit Place(const std::function<void(int)>& taken) : taken_(taken) {}
    ~Place() {
        if (processor_ >= 0) taken_(-1);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    Found go_to(uint32_t client) {
        const auto facts = client != 0 ? read_process(static_cast<int>(client)) : std::nullopt;
        if (!facts || facts->processor < 0) return Found::nowhere;
        if (facts->processor == processor_) return Found::same;
        if (sys::run_on_processor(facts->processor)) taken_(processor_ = facts->processor);
        return Found::elsewhere;
    }

 private:
    const std::function<void(int)>& taken_;
    int processor_ = -1;
};

}  // namespace

Companion::~Companion() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        following_ = false;
        let_go();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

bool Companion::may_follow() {
    const std::lock_guard lock(mutex_);
    return Clock::now() >= not_before_;
}

void Companion::stop_following() {
    const std::lock_guard lock(mutex_);
    following_ = false;
    let_go();
    changed_.notify_all();
}

/// Whether to go on, asked after it has bound itself, which somebody may have undone meanwhile.
bool Companion::still_follows() {
    const std::lock_guard lock(mutex_);
    if (!following_) let_go();
    return following_;
}

void Companion::fail() {
    const std::lock_guard lock(mutex_);
    const uint64_t answered = answered_;
    pause_ = answered - failed_at_ >= kWorked ? kFirstPause : std::min(pause_ * 2, kLongestPause);
    failed_at_ = answered;
    not_before_ = Clock::now() + pause_;
    following_ = false;
    let_go();
    changed_.notify_all();
}

/// What it has begun it shall end wherever there is room.
void Companion::let_go() {
    if (thread_.joinable()) sys::keep_off_processor(thread_.native_handle(), -1);
}

void Companion::about_to_wait() {
    const std::lock_guard lock(mutex_);
    waits_for_disk_ = true;
    changed_.notify_all();
}

void Companion::answer_for(uint32_t client, Requests& requests, const std::function<void()>& answer,
                           const std::function<bool()>& alone) {
    {
        const std::lock_guard lock(mutex_);
        if (!parked_) return;  // it has not come back yet
        client_ = client;
        following_ = true;
        parked_ = false;
        if (!thread_.joinable()) try {
                thread_ = std::thread([this] { work(); });
            } catch (const std::system_error&) {  // the user's limit
                following_ = false;
                parked_ = true;
                not_before_ = Clock::now() + kLongestPause;
                return;
            }
    }
    changed_.notify_all();
    uint64_t stuck_at = UINT64_MAX;
    Clock::time_point since;
    while (following_ && alone()) {
        const milliseconds at_most = at_work_ ? kGuardEvery : kGuardIdle;
        if (requests.wait(static_cast<int>(at_most.count())) == Requests::Seen::end) break;
        const uint64_t before = answered_;
        {
            std::unique_lock lock(mutex_);
            changed_.wait_for(lock, kGuardEvery, [this] { return !following_ || waits_for_disk_; });
        }
        if (!following_ || answered_ != before) continue;
        if (before != stuck_at) {
            stuck_at = before;
            since = Clock::now();
        }
        const bool something_waits = requests.another_waits();
        const bool disk = waits_for_disk_ && Clock::now() - since < kForDisk;
        if (!disk && (at_work_ || something_waits)) fail();
        if (!something_waits) continue;
        if (!requests.take()) break;
        answer();
    }
    stop_following();
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

bool Companion::take_and_answer(Requests& requests, bool one_waits) {
    if (!following_) return false;
    if (!one_waits && requests.wait(static_cast<int>(kIdle.count())) == Requests::Seen::nothing)
        return false;
    if (!requests.take()) {
        failure_ = requests.failure();
        return false;
    }
    at_work_ = true;
    requests.answer();
    waits_for_disk_ = false;
    at_work_ = false;
    ++answered_;
    return following_;
}

void Companion::answer_in_turns(uint32_t client, Requests& requests) {
    Place place(taken_);
    if (client != 0) place.go_to(client);
    if (!still_follows()) return;
    unsigned far = 0, look_after = kLookFirst, looks = 0, strangers = 0;
    for (bool one_waits = false; take_and_answer(requests, one_waits);) {
        one_waits = false;
        if (requests.is_asked()) {
            const uint32_t asks = requests.client();
            if (asks == client) {
                strangers -= strangers > 0 ? 1 : 0;
            } else {
                strangers += client != 0 ? kStranger : 0;
                client = asks;
                far = look_after = kLookFirst;
            }
            if (client == 0 || strangers > kMostStrangers) return stop_following();
        }
        // Who was woken here asks again before we see that there is nothing to do.
        if (far < look_after && (one_waits = requests.another_waits())) {
            far = 0;
            continue;
        }
        if (++far < look_after) continue;
        far = 0;
        const Place::Found found = place.go_to(client);
        if (!still_follows()) return;
        if (found == Place::Found::same) {
            look_after = std::min(look_after * 2, kLookLast);
            looks = 0;
        } else {
            look_after = kLookFirst;
            if (++looks >= kMostLooks) return fail();
        }
    }
    stop_following();
}

}  // namespace slipway::image::squashfs
