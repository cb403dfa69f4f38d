// Hands full buckets to the communicator, in the same order on every rank.
// Must not: touch gradients itself.
#include "strategy/gradient_reducer.hpp"

namespace slipway::train {

GradientReducer::GradientReducer(Communicator& communicator, std::vector<Bucket> buckets,
                                 Overlap overlap)
    : communicator_(communicator), buckets_(std::move(buckets)), overlap_(overlap) {
    if (overlap_ == Overlap::end && buckets_.size() > 1)
        buckets_ = {{buckets_.front().first, buckets_.back().last}};
    if (overlap_ == Overlap::thread) thread_ = std::thread([this] { serve(); });
}

GradientReducer::~GradientReducer() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void GradientReducer::start() {
    next_ = 0;
    std::lock_guard lock(mutex_);
    full_ = done_ = 0;
}

void GradientReducer::ready(size_t end) {
    if (overlap_ != Overlap::thread) return reduce_ready(end);
    {
        std::lock_guard lock(mutex_);
        while (full_ < buckets_.size() && buckets_[full_].last <= end) ++full_;
    }
    changed_.notify_all();
}

void GradientReducer::reduce_ready(size_t end) {
    while (next_ < buckets_.size() && buckets_[next_].last <= end) {
        communicator_.all_reduce(buckets_[next_].first,
                                 buckets_[next_].last - buckets_[next_].first);
        ++next_;
    }
}

void GradientReducer::finish() {
    if (overlap_ != Overlap::thread) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || done_ == buckets_.size(); });
    if (failure_) std::rethrow_exception(failure_);
}

void GradientReducer::serve() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stop_ || done_ < full_; });
        if (stop_) return;
        const Bucket bucket = buckets_[done_];
        lock.unlock();
        try {
            communicator_.all_reduce(bucket.first, bucket.last - bucket.first);
        } catch (...) {
            lock.lock();
            failure_ = std::current_exception();
            changed_.notify_all();
            return;
        }
        lock.lock();
        ++done_;
        changed_.notify_all();
    }
}

}  // namespace slipway::train
