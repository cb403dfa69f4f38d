// Decides how many threads answer a device's requests.
// Must not: know what a request asks.
#include "answering.hpp"

#include <system_error>

#include "requests.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr unsigned kBusy = 4;    // requests in a row that found another behind them
constexpr unsigned kCalm = 256;  // requests in a row that found none
constexpr unsigned kTurns = 16;  // requests in a row of one client

}  // namespace

void Answering::answer(Requests& requests) {
    ++inside_;
    requests.answer();
    --inside_;
}

bool Answering::take(Requests& requests) {
    if (!companion_.lingers()) return requests.take();
    const std::lock_guard lock(taking_);
    requests.wait();
    return requests.take();
}

/// libfuse's own loop of threads cancels them, which C++ code does not survive well; when the
/// device ends every reader of it gets ENODEV, so these need no cancelling.
void Answering::answer_requests() {
    sys::run_on_all_processors();
    set_patience(this);
    Requests requests(session_);
    while (take(requests)) {
        answer(requests);
        if (!adapt(requests)) break;
    }
    set_patience(nullptr);
    if (requests.failure() != 0) failure_ = requests.failure();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wanted_.notify_all();
}

bool Answering::adapt(Requests& requests) {
    const bool alone = has_many_turns(requests);
    if (requests.another_waits() && !alone) {
        calm_ = 0;
        if (++busy_ < kBusy) return true;
        busy_ = 0;
        const std::lock_guard lock(mutex_);
        if (active_ < most_ && !ended_) add_thread();
        return !ended_;
    }
    busy_ = 0;
    if (alone && most_ > 1 && active_ == 1 && companion_.may_follow()) {
        turns_ = 0;
        companion_.answer_for(
            client_, requests, [&] { answer(requests); }, [this] { return active_ == 1; });
        return true;
    }
    if (++calm_ < kCalm && !alone) return true;
    std::unique_lock lock(mutex_);
    // Another must be ready for the next request: who is at one now may wait for a disk for long.
    return active_ - inside_ < 2 || rest(lock);
}

/// True when one client has asked many times in a row.
bool Answering::has_many_turns(const Requests& requests) {
    if (!requests.is_asked()) return turns_ >= kTurns;
    const uint32_t client = requests.client();
    if (client == 0 || client_.exchange(client) != client) turns_ = 0;
    return ++turns_ >= kTurns && client != 0;
}

void Answering::about_to_wait() {
    const std::lock_guard lock(mutex_);
    if (inside_ >= active_ && active_ < most_ && !ended_) add_thread();
}

void Answering::add_thread() {
    if (resting_ > called_) {
        ++called_;
        ++active_;
        wanted_.notify_one();
        return;
    }
    try {
        threads_.emplace_back([this] { answer_requests(); });
        ++active_;
    } catch (const std::system_error&) {  // the user's limit: those that there are
    }
}

/// Until there is work for this thread again. False at the end.
bool Answering::rest(std::unique_lock<std::mutex>& lock) {
    --active_;
    ++resting_;
    calm_ = 0;
    wanted_.wait(lock, [this] { return ended_ || called_ > 0; });
    --resting_;
    if (called_ > 0) --called_;
    return !ended_;
}

int Answering::run() {
    turns_ = kTurns;  // INIT comes first; then who mounts it asks, and is alone
    answer_requests();
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(mutex_);
        threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
    return failure_ != 0 ? failure_.load() : companion_.failure();
}

}  // namespace slipway::image::squashfs
