// Receives requests and hands them to libfuse, on as many threads as there is work for.
// Must not: know what a request asks.
#define FUSE_USE_VERSION 35
#include "answering.hpp"

#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "follower.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr unsigned kBusy = 4;    // requests in a row that found another behind them
constexpr unsigned kCalm = 256;  // requests in a row that found none

bool another_waits(fuse_session* session) {
    pollfd device{fuse_session_fd(session), POLLIN, 0};
    return ::poll(&device, 1, 0) > 0 && (device.revents & POLLIN) != 0;
}

}  // namespace

/// libfuse's own loop of threads cancels them, which C++ code does not survive well; when the
/// device ends every reader of it gets ENODEV, so these need no cancelling.
void Answering::answer_requests() {
    sys::run_on_all_processors();
    set_patience(this);
    fuse_buf buffer = {};
    Follower follower;
    uint32_t client = 0;
    do {
        const int got = fuse_session_receive_buf(session_, &buffer);
        if (got == -EINTR || got == -EAGAIN) continue;
        if (got <= 0) {
            if (got < 0 && got != -ENODEV) failure_ = -got;
            break;
        }
        client = static_cast<const fuse_in_header*>(buffer.mem)->pid;
        ++inside_;
        fuse_session_process_buf(session_, &buffer);
        --inside_;
    } while (!fuse_session_exited(session_) && adapt(follower, client));
    set_patience(nullptr);
    std::free(buffer.mem);
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wanted_.notify_all();
}

bool Answering::adapt(Follower& follower, uint32_t client) {
    if (another_waits(session_)) {
        calm_ = 0;
        follower.let_go();
        if (++busy_ < kBusy) return true;
        busy_ = 0;
        const std::lock_guard lock(mutex_);
        if (active_ < most_ && !ended_) add_thread();
        return !ended_;
    }
    busy_ = 0;
    if (active_ == 1) follower.asked_by(client);
    if (++calm_ < kCalm) return true;
    std::unique_lock lock(mutex_);
    // Another must be ready for the next request: who is at one now may wait for a disk for long.
    return active_ - inside_ < 2 || rest(lock);
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
    answer_requests();
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(mutex_);
        threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
    return failure_;
}

}  // namespace slipway::image::squashfs
