// Sums gradients directly out of every rank's arena in shared memory.
// Must not: be used across nodes (connect.cpp sees to that).
#include "comm/shared_memory.hpp"

#include <algorithm>
#include <optional>

#include "comm/node_memory.hpp"
#include "comm/sum.hpp"
#include "slipway/base/log.hpp"

namespace slipway::train {

namespace {

constexpr size_t kLine = 16;  // floats of a cache line; ranks never write to one line

class SharedMemoryCommunicator final : public Communicator {
 public:
    explicit SharedMemoryCommunicator(std::unique_ptr<Communicator> inner)
        : inner_(std::move(inner)) {
        world_ = inner_->world();
    }

    ReduceBuffer reduce_buffer(size_t count) override {
        stride_ = (count + kLine - 1) / kLine * kLine;
        const auto ranks = static_cast<size_t>(world_.size);
        memory_.reset();
        if (auto memory = NodeMemory::share(*inner_, (ranks + 1) * stride_ * sizeof(float)))
            memory_.emplace(std::move(*memory));
        world_.transport = inner_->world().transport + (memory_ ? "+shm" : "");
        if (!memory_) return inner_->reduce_buffer(count);
        arenas_ = reinterpret_cast<float*>(memory_->data());
        sum_ = arenas_ + ranks * stride_;
        return {arenas_ + static_cast<size_t>(world_.rank) * stride_, sum_, count};
    }

    void all_reduce(size_t offset, size_t count) override {
        if (!memory_) return inner_->all_reduce(offset, count);
        memory_->meet();  // every rank's gradients are there
        const auto ranks = static_cast<size_t>(world_.size);
        const auto rank = static_cast<size_t>(world_.rank);
        const size_t lines = (count + kLine - 1) / kLine;
        const size_t first = std::min(count, lines * rank / ranks * kLine);
        const size_t last = std::min(count, lines * (rank + 1) / ranks * kLine);
        sum_arenas(sum_ + offset + first, arenas_ + offset + first, stride_, ranks, last - first);
        memory_->meet();  // every share of the sum is there
    }

    void sum(std::span<double> values) override { inner_->sum(values); }
    void broadcast(void* data, size_t size_bytes, int root) override {
        inner_->broadcast(data, size_bytes, root);
    }
    void all_gather(const void* mine, size_t size_bytes, void* out) override {
        inner_->all_gather(mine, size_bytes, out);
    }
    void barrier() override { inner_->barrier(); }
    void abort(int exit_status) override { inner_->abort(exit_status); }
    void finish() override { inner_->finish(); }

 private:
    std::unique_ptr<Communicator> inner_;
    std::optional<NodeMemory> memory_;
    size_t stride_ = 0;        // floats from one rank's arena to the next
    float* arenas_ = nullptr;  // one a rank, then the sum
    float* sum_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> with_shared_memory(std::unique_ptr<Communicator> inner) {
    return std::make_unique<SharedMemoryCommunicator>(std::move(inner));
}

}  // namespace slipway::train
