// A server's thread that takes turns with its client, on the client's processor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "patience.hpp"

struct fuse_session;

namespace slipway::image::squashfs {

class Requests;

/// As long as one thread asks and nobody else, client and server never run at once, and what an
/// answer costs is waking a processor that sleeps. Binding the server to the client's processor is
/// not enough: Linux wakes the client where it finds an idle processor, which the server's is not.
/// But a processor that runs nothing except SCHED_IDLE threads is as good as idle for it
/// (sched_idle_cpu() in kernel/sched/fair.c, since Linux 5.4), so this thread is one of those: the
/// client stays, and goes on where it was answered.
///
/// The price: whatever else runs there goes before this thread. So whoever lets it answer guards
/// meanwhile. When the companion has not got on for a few milliseconds, it may run on any processor
/// again, and whoever guards answers himself. While it waits for a disk, he does so at once.
class Companion final : private Patience {
 public:
    /// `taken` is told which processor the companion uses, -1 for none: what wakes on it delays it.
    Companion(fuse_session* session, std::function<void(int)> taken)
        : session_(session), taken_(std::move(taken)) {}
    ~Companion();

    /// Whether it is worth a try: not soon after one that failed.
    bool may_follow();
    /// Let the companion answer, beginning with what this thread asks, until several ask or it does
    /// not get on. `client` 0: who asks next. The caller guards with `requests` meanwhile, as long
    /// as he is `alone`: no other thread answers; what he takes he answers with `answer`.
    void answer_for(uint32_t client, Requests& requests, const std::function<void()>& answer,
                    const std::function<bool()>& alone);
    /// True while it may still wait for a request, and be the only one whom that wakes. Who takes
    /// one then must look for it with Requests::wait() first, one thread at a time: if anybody is
    /// faster, it is the companion, which takes no other.
    bool lingers() const { return !parked_; }
    /// As Requests::failure().
    int failure() const { return failure_; }

 private:
    using Clock = std::chrono::steady_clock;

    void about_to_wait() override;
    void work();
    bool wait_for_client(uint32_t& client);
    bool take_and_answer(Requests& requests, bool one_waits);
    void answer_in_turns(uint32_t client, Requests& requests);
    void stop_following();
    bool still_follows();
    void fail();
    void let_go();

    fuse_session* const session_;
    const std::function<void(int)> taken_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stop_ = false;
    uint32_t client_ = 0;
    Clock::time_point not_before_{};
    std::chrono::milliseconds pause_{50};  ///< after the last failure
    uint64_t failed_at_ = 0;               ///< answered before it
    std::atomic<bool> following_{false}, parked_{true}, waits_for_disk_{false}, at_work_{false};
    std::atomic<uint64_t> answered_{0};
    std::atomic<int> failure_{0};
    std::thread thread_;
};

}  // namespace slipway::image::squashfs
