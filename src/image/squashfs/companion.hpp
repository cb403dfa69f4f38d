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
/// meanwhile, and answers himself what has lain there for a few milliseconds.
class Companion final : private Patience {
 public:
    explicit Companion(fuse_session* session) : session_(session) {}
    ~Companion();

    /// Whether it is worth a try: not soon after one that failed.
    bool may_follow() const;
    /// Let the companion answer, beginning with what this thread asks, until several ask or it does
    /// not get on. The caller guards with `requests` meanwhile, as long as he is `alone`: no other
    /// thread answers; what he takes he answers with `answer`. Returns false at the device's end.
    bool answer_for(uint32_t client, Requests& requests, const std::function<void()>& answer,
                    const std::function<bool()>& alone);
    /// True while it may still wait for a request, and be the only one whom that wakes: who takes
    /// one must look for it with Requests::wait() first.
    bool lingers() const { return !parked_; }
    /// As Requests::failure().
    int failure() const { return failure_; }

 private:
    using Clock = std::chrono::steady_clock;

    void about_to_wait() override { waits_for_disk_ = true; }
    void work();
    bool wait_for_client(uint32_t& client);
    void answer_in_turns(uint32_t client, Requests& requests);
    void stop_following();
    void fail();

    fuse_session* const session_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stop_ = false;
    uint32_t client_ = 0;
    Clock::time_point not_before_{};
    std::chrono::milliseconds pause_{50};  ///< after the last failure
    uint64_t failed_at_ = 0;               ///< answered before it
    std::atomic<bool> following_{false}, parked_{true}, waits_for_disk_{false}, ended_{false};
    std::atomic<uint64_t> answered_{0};
    std::atomic<int> failure_{0};
    std::thread thread_;
};

}  // namespace slipway::image::squashfs
