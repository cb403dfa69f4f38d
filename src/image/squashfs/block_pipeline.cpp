// The ring of blocks between the reader of a layer and the compressing threads.
// Must not: let the number of threads decide any byte of the output.
#include "block_pipeline.hpp"

#include <algorithm>
#include <cstring>

#include "slipway/base/digest.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {
namespace {

bool all_zero(const std::byte* data, size_t size_bytes) {
    return size_bytes == 0 ||
           (data[0] == std::byte{0} && std::memcmp(data, data + 1, size_bytes - 1) == 0);
}

}  // namespace

Hash hash_block(uint32_t word, const std::byte* data) {
    Sha256 sha;
    const uint8_t head[4] = {uint8_t(word), uint8_t(word >> 8), uint8_t(word >> 16),
                             uint8_t(word >> 24)};
    sha.update(head, sizeof head);
    sha.update(data, word & kSizeMask);
    const auto full = sha.finish_bytes();
    Hash hash;
    std::copy_n(full.begin(), hash.size(), hash.begin());
    return hash;
}

unsigned thread_count(const SquashfsOptions& options) {
    return options.threads > 0 ? options.threads
                               : std::max(1u, std::thread::hardware_concurrency());
}

BlockPipeline::BlockPipeline(int fd, const std::string& subject, const SquashfsOptions& options)
    : fd_(fd), subject_(subject), slots_(2 * thread_count(options) + 2) {
    for (Slot& each : slots_) {
        each.input.resize(options.block_size_bytes);
        each.output.resize(options.block_size_bytes);
    }
    std::vector<Compressor> compressors;  // made here, so that a wrong option throws here
    for (unsigned i = 0; i < thread_count(options); ++i)
        compressors.push_back(make_compressor(options));
    try {
        for (Compressor& each : compressors)
            threads_.emplace_back(
                [this, compressor = std::move(each)]() mutable { work(std::move(compressor)); });
    } catch (...) {
        stop();
        throw;
    }
}

BlockPipeline::~BlockPipeline() { stop(); }

void BlockPipeline::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

std::span<std::byte> BlockPipeline::buffer() {
    std::unique_lock lock(mutex_);
    Slot& next = slot(submitted_);
    freed_.wait(lock, [&] { return failure_ || next.state == Slot::State::free; });
    if (failure_) std::rethrow_exception(failure_);
    return next.input;
}

uint64_t BlockPipeline::submit(size_t size_bytes, Kind kind, bool raw) {
    const std::lock_guard lock(mutex_);
    Slot& next = slot(submitted_);
    next.size_bytes = size_bytes;
    next.kind = kind;
    next.raw = raw;
    next.state = Slot::State::ready;
    ready_.notify_one();
    return submitted_++;
}

std::vector<PackBlock> BlockPipeline::finish() {
    {
        std::unique_lock lock(mutex_);
        freed_.wait(lock, [&] { return failure_ || written_ == submitted_; });
        if (failure_) std::rethrow_exception(failure_);
    }
    stop();
    return std::move(blocks_);
}

void BlockPipeline::work(Compressor compressor) {
    std::unique_lock lock(mutex_);
    while (true) {
        ready_.wait(lock, [&] { return stopping_ || taken_ < submitted_; });
        if (taken_ == submitted_ || failure_) return;
        Slot& mine = slot(taken_++);
        mine.state = Slot::State::busy;
        lock.unlock();
        std::exception_ptr failed;
        try {
            compress(mine, *compressor);
        } catch (...) {
            failed = std::current_exception();
        }
        lock.lock();
        mine.state = Slot::State::done;
        try {
            if (failed) std::rethrow_exception(failed);
            if (!writing_) write_finished(lock);
        } catch (...) {
            if (!lock.owns_lock()) lock.lock();
            failure_ = std::current_exception();
            freed_.notify_all();
            return;
        }
    }
}

void BlockPipeline::compress(Slot& mine, sqfs_compressor_t& compressor) {
    mine.block = {};
    if (mine.kind == Kind::data && all_zero(mine.input.data(), mine.size_bytes)) return;
    const auto size = static_cast<sqfs_u32>(mine.size_bytes);
    const sqfs_s32 packed =
        mine.raw
            ? 0
            : compressor.do_block(&compressor, reinterpret_cast<const sqfs_u8*>(mine.input.data()),
                                  size, reinterpret_cast<sqfs_u8*>(mine.output.data()), size);
    require_sqfs(packed, "do_block");
    if (packed == 0 || static_cast<sqfs_u32>(packed) >= size) {
        std::memcpy(mine.output.data(), mine.input.data(), size);
        mine.block.word = size | kStoredRaw;
    } else {
        mine.block.word = static_cast<uint32_t>(packed);
    }
    mine.block.hash = hash_block(mine.block.word, mine.output.data());
}

void BlockPipeline::write_finished(std::unique_lock<std::mutex>& lock) {
    writing_ = true;
    while (written_ < submitted_ && slot(written_).state == Slot::State::done && !failure_) {
        Slot& next = slot(written_);
        next.block.offset = position_;
        const size_t size = next.block.size_bytes();
        if (size > 0) {
            lock.unlock();
            sys::pwrite_all(fd_, next.output.data(), size, next.block.offset, subject_);
            lock.lock();
            position_ += size;
        }
        blocks_.push_back(next.block);
        next.state = Slot::State::free;
        ++written_;
        freed_.notify_one();
    }
    writing_ = false;
}

}  // namespace slipway::image::squashfs
