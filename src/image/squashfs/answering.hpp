// The threads that answer a FUSE server's requests: as many as there is work for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "companion.hpp"
#include "patience.hpp"

struct fuse_session;

namespace slipway::image::squashfs {

class Requests;

/// One thread answers as long as requests come one after another, as those of a program's start and
/// of a walk do: several would hand them around between the processors, and each time one has to be
/// woken. As long as they come from one client, that thread is a Companion. Requests that wait
/// already when others are answered bring a further thread, up to `most`; when none has waited for
/// some time, threads rest again.
///
/// A thread that is about to wait for a disk brings a further one first, if all others are at work:
/// whatever lies in memory is answered meanwhile.
class Answering final : private Patience {
 public:
    /// `taken`: see Companion.
    Answering(fuse_session* session, unsigned most, std::function<void(int)> taken)
        : session_(session), most_(most), companion_(session, std::move(taken)) {}
    /// Returns when the file system is gone: 0, or the errno of the device's failure.
    int run();

 private:
    void answer_requests();
    bool take(Requests& requests);
    void answer(Requests& requests);
    void about_to_wait() override;
    /// Look at who asks, and what waits. True: go on; false at the end.
    bool adapt(Requests& requests);
    bool has_many_turns(const Requests& requests);
    void add_thread();
    bool rest(std::unique_lock<std::mutex>& lock);

    fuse_session* const session_;
    const unsigned most_;
    std::atomic<int> failure_{0};
    std::atomic<unsigned> busy_{0}, calm_{0};  ///< requests in a row with another waiting, without
    std::atomic<uint32_t> client_{0};          ///< who asked last
    std::atomic<unsigned> turns_{0};           ///< its requests in a row
    std::mutex mutex_;
    std::condition_variable wanted_;
    std::atomic<unsigned> active_{1};  ///< threads that answer, beside the companion
    std::atomic<unsigned> inside_{0};  ///< those that are at a request now
    unsigned resting_ = 0;             ///< threads that could
    unsigned called_ = 0;              ///< resting ones that have been called
    bool ended_ = false;
    std::mutex taking_;  ///< while the companion lingers
    std::vector<std::thread> threads_;
    Companion companion_;
};

}  // namespace slipway::image::squashfs
