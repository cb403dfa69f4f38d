// The ranks of one training job, whatever carries their messages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace slipway::train {

/// Where this process stands among the ranks of the job.
struct World {
    int rank = 0;
    int size = 1;
    int local_rank = 0;  ///< among the ranks of this node
    int local_size = 1;
    std::string transport = "single";  ///< "single", "openmpi", "mpich", "openmpi+shm", "mpich+shm"
};

/// Gradients before and after the sum over all ranks. `local` is written by this rank; `sum` holds
/// the result once all_reduce() has returned. Both may be the same memory.
struct ReduceBuffer {
    float* local = nullptr;
    const float* sum = nullptr;
    size_t count = 0;
};

/// Collective operations; every rank calls the same ones in the same order, from one thread at a
/// time.
/// Throws: Error(launcher) when a peer has died or the transport fails.
class Communicator {
 public:
    virtual ~Communicator() = default;
    const World& world() const { return world_; }

    /// Make the buffer whose parts all_reduce() sums, zeroed; owned by the communicator, one at a
    /// time.
    virtual ReduceBuffer reduce_buffer(size_t count) = 0;
    /// Sum [offset, offset + count) of the reduce buffer over all ranks, in a fixed order.
    virtual void all_reduce(size_t offset, size_t count) = 0;
    /// Sum a few values over all ranks, in place.
    virtual void sum(std::span<double> values) = 0;
    virtual void broadcast(void* data, size_t size_bytes, int root) = 0;
    /// Gather `size_bytes` from every rank, in rank order, into `out` (size × size_bytes).
    virtual void all_gather(const void* mine, size_t size_bytes, void* out) = 0;
    virtual void barrier() = 0;
    /// End the job on every rank; called after the error has been printed. Does not return when
    /// there is more than one rank.
    virtual void abort(int exit_status) = 0;
    /// Leave the job in good order; collective.
    virtual void finish() = 0;

 protected:
    World world_;
};

struct ConnectOptions {
    std::string transport = "auto";  ///< auto, single, openmpi, mpich
    bool shared_memory = true;       ///< reduce through our own shared memory within one node
};

/// Join the job that the launcher's variables describe, or stand alone if there is no launcher.
/// Throws: Error(launcher) when the launcher declares several ranks and no transport reaches them.
std::unique_ptr<Communicator> connect(const ConnectOptions& options);

}  // namespace slipway::train
