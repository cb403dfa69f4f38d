// Reduces gradient buckets while the backward pass goes on, or in order with it.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "slipway/train/communicator.hpp"
#include "strategy/bucket_plan.hpp"

namespace slipway::train {

/// When buckets are reduced.
enum class Overlap {
    thread,   ///< on a thread of their own, beside the backward pass
    inlined,  ///< by the thread that computes, the moment each is full
    end,      ///< all together after the backward pass
};

/// Not to be used from two threads; the communicator is the reducer's between start() and finish().
class GradientReducer {
 public:
    GradientReducer(Communicator& communicator, std::vector<Bucket> buckets, Overlap overlap);
    ~GradientReducer();
    GradientReducer(const GradientReducer&) = delete;
    GradientReducer& operator=(const GradientReducer&) = delete;

    /// Begin a step.
    void start();
    /// Gradients in [0, end) are complete.
    void ready(size_t end);
    /// Wait until all buckets are summed. Throws: what the communicator threw.
    void finish();

 private:
    void reduce_ready(size_t end);
    void serve();

    Communicator& communicator_;
    std::vector<Bucket> buckets_;
    Overlap overlap_;
    size_t next_ = 0;  // bucket to reduce next

    std::mutex mutex_;
    std::condition_variable changed_;
    size_t full_ = 0;  // buckets that are full; with the mutex
    size_t done_ = 0;  // buckets that are summed; with the mutex
    bool stop_ = false;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace slipway::train
