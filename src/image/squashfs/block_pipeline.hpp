// Compress blocks on several threads and write them in order of submission.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "compressor.hpp"
#include "pack.hpp"

namespace slipway::image::squashfs {

/// A ring of blocks between one producer and N compressing threads. Whoever finishes the block
/// that is next in order writes it and its finished successors, so positions depend on the order
/// of submission alone.
class BlockPipeline {
 public:
    enum class Kind { data, fragment };
    /// `fd` is written from its start and is the caller's.
    BlockPipeline(int fd, const std::string& subject, const SquashfsOptions& options);
    ~BlockPipeline();
    BlockPipeline(const BlockPipeline&) = delete;
    BlockPipeline& operator=(const BlockPipeline&) = delete;

    /// Wait for a free block of block-size bytes to fill. Throws what a thread threw.
    std::span<std::byte> buffer();
    /// Hand over the first `size_bytes` of it; returns the block's number. Data that is all zero
    /// becomes a hole; with `raw` they are not compressed.
    uint64_t submit(size_t size_bytes, Kind kind, bool raw = false);
    /// Wait for everything that was submitted; the blocks by number.
    std::vector<PackBlock> finish();

 private:
    struct Slot {
        enum class State { free, ready, busy, done } state = State::free;
        Kind kind = Kind::data;
        bool raw = false;
        size_t size_bytes = 0;
        std::vector<std::byte> input;
        std::vector<std::byte> output;
        PackBlock block;
    };
    Slot& slot(uint64_t number) { return slots_[number % slots_.size()]; }
    void work(Compressor compressor);
    void compress(Slot& slot, sqfs_compressor_t& compressor);
    void write_finished(std::unique_lock<std::mutex>& lock);
    void stop();

    const int fd_;
    const std::string subject_;
    std::mutex mutex_;
    std::condition_variable ready_, freed_;
    std::vector<Slot> slots_;
    uint64_t submitted_ = 0, taken_ = 0, written_ = 0;
    uint64_t position_ = 0;
    bool writing_ = false, stopping_ = false;
    std::exception_ptr failure_;
    std::vector<PackBlock> blocks_;
    std::vector<std::thread> threads_;
};

/// How many threads the options ask for.
unsigned thread_count(const SquashfsOptions& options);

}  // namespace slipway::image::squashfs
