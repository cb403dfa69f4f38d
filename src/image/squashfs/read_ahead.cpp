// Guesses from READs what comes next, decompresses it on threads of its own and stores it.
// Must not: answer a request, hold a lock while it stores, or report damage: who reads it is told.
#include "read_ahead.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <exception>

#include "slipway/base/sys_process.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr uint32_t kNone = 0xffffffff;
constexpr size_t kMostKnown = 1u << 20;  // files whose tails may be stored
constexpr size_t kRoomOfKey = 7;         // an entry of the map is as large as so many files in one
constexpr size_t kMostPatterns = 4096;
constexpr size_t kMostJobs = 256;
constexpr uint64_t kFirstWindow = 2;          // blocks
constexpr uint64_t kLargestWindow = 4 << 20;  // bytes
constexpr uint64_t kBlocksOfJob = 2;          // so that several threads share a window
constexpr uint64_t kMostExpected = 2 << 20;   // bytes of one file
constexpr uint64_t kMostOfTails = 16;         // blocks stored for one fragment block
constexpr uint32_t kFragmentsAhead = 2;

}  // namespace

ReadAhead::ReadAhead(const ImageReader& reader, int image, Find find, unsigned threads)
    : reader_(reader), image_(image), find_(std::move(find)), most_threads_(threads) {}

void ReadAhead::stop() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        jobs_.clear();
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

uint64_t ReadAhead::parts(const InodeInfo& file) const {
    return reader_.block_count(file) + (file.fragment != kNone ? 1 : 0);
}

void ReadAhead::expect(uint64_t node) {
    const std::lock_guard lock(known_mutex_);
    expected_.insert(node);
}

void ReadAhead::became_known(uint64_t node, const InodeInfo& file) {
    if (!S_ISREG(file.mode) || file.size_bytes == 0) return;
    const std::lock_guard lock(known_mutex_);
    if (expected_.erase(node) > 0) {
        const uint64_t most = std::max(kFirstWindow, kMostExpected / reader_.super().block_size);
        submit({node, file, 0, std::min(parts(file), most), {}});
        return;
    }
    if (file.fragment >= reader_.super().fragments) return;  // none, or a damaged one
    if (known_ >= kMostKnown) {
        tails_.clear();
        known_ = 0;
    }
    std::vector<uint64_t>& nodes = tails_[file.fragment];
    known_ += nodes.empty() ? 1 + kRoomOfKey : 1;
    nodes.push_back(node);
}

void ReadAhead::will_read(uint64_t node, const InodeInfo& file, uint64_t offset,
                          size_t size_bytes) {
    const uint64_t block = reader_.super().block_size, end = parts(file);
    const uint64_t first = offset / block;
    const uint64_t after = (std::min(offset + size_bytes, file.size_bytes) + block - 1) / block;
    if (end <= 1 || after >= end) return;
    Job job{node, file, 0, 0, {}};
    {
        const std::lock_guard lock(patterns_mutex_);
        if (patterns_.size() >= kMostPatterns) patterns_.clear();
        const auto [found, is_new] = patterns_.try_emplace(node);
        Pattern& pattern = found->second;
        const uint64_t reached = std::max(pattern.next, pattern.stored);
        const bool goes_on = is_new ? offset == 0 : first + 1 >= pattern.next && first <= reached;
        pattern.next = after;
        if (!goes_on) {
            pattern.window = 0;
            pattern.stored = after;
            return;
        }
        if (after < pattern.stored) return;  // asked for while it is being stored
        pattern.window = std::clamp<uint64_t>(pattern.window * 2, kFirstWindow,
                                              std::max(kFirstWindow, kLargestWindow / block));
        job.first = std::max(after, pattern.stored);
        job.count = std::min(pattern.window, end - std::min(end, job.first));
        pattern.stored = job.first + job.count;
    }
    for (uint64_t left = job.count; left > 0; left -= job.count, job.first += job.count) {
        job.count = std::min(left, kBlocksOfJob);
        submit(job);
    }
}

void ReadAhead::was_read(uint64_t node, const InodeInfo& file, uint64_t offset, size_t size_bytes) {
    const uint64_t block = reader_.super().block_size, blocks = reader_.block_count(file);
    const uint64_t end = std::min(offset + size_bytes, file.size_bytes);
    if (file.fragment != kNone && end > blocks * block) take_tails(file.fragment, node);
    // The block is decompressed: its other pages are for nothing.
    const auto rest = [&](uint64_t number) {
        const uint64_t from = number * block, to = std::min(from + block, file.size_bytes);
        if (number < blocks && (offset > from || end < to) &&
            !reader_.is_stored_plain(file, number))
            submit({node, file, number, 1, {}});
    };
    if (end <= offset) return;
    rest(offset / block);
    if ((end - 1) / block != offset / block) rest((end - 1) / block);
}

void ReadAhead::take_tails(uint32_t fragment, uint64_t reader) {
    for (uint32_t i = 0; i <= kFragmentsAhead; ++i) {
        const uint32_t next = fragment + i;
        Job job;
        {
            const std::lock_guard lock(known_mutex_);
            const auto found = tails_.find(next);
            if (found == tails_.end()) continue;
            known_ -= found->second.size() + kRoomOfKey;
            job.tails = std::move(found->second);
            tails_.erase(found);
        }
        std::erase(job.tails, reader);
        std::sort(job.tails.begin(),
                  job.tails.end());  // a node comes once for each time it was seen
        job.tails.erase(std::unique(job.tails.begin(), job.tails.end()), job.tails.end());
        if (!job.tails.empty()) submit(std::move(job));
    }
}

void ReadAhead::submit(Job job) {
    const std::lock_guard lock(mutex_);
    if (stop_ || jobs_.size() >= kMostJobs || most_threads_ == 0) return;
    jobs_.push_back(std::move(job));
    work_.notify_one();
}

void ReadAhead::start(int device) {
    const std::lock_guard lock(mutex_);
    add_thread(device);
}

void ReadAhead::keep_off(int processor) {
    const std::lock_guard lock(mutex_);
    for (std::thread& thread : threads_) sys::keep_off_processor(thread.native_handle(), processor);
}

/// A new thread begins with the descriptors of the one that makes it, `device` among them.
void ReadAhead::add_thread(int device) {
    if (stop_ || threads_.size() >= most_threads_) return;
    try {
        threads_.emplace_back([this, device, first = threads_.empty()] { work(device, first); });
    } catch (const std::exception&) {  // the user's limits: fewer, or nothing read ahead
    }
}

void ReadAhead::work(int device, bool first) {
    const PageStore pages(device, image_, !first);
    if (!pages) return;
    while (true) {
        Job job;
        {
            std::unique_lock lock(mutex_);
            ++idle_;
            work_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
            --idle_;
            if (stop_) return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
            if (idle_ == 0) add_thread(pages.device());  // for the next job
        }
        try {
            if (job.tails.empty())
                store_blocks(pages, job);
            else
                store_tails(pages, job);
        } catch (const std::exception&) {  // who asks for it will be told
        }
    }
}

void ReadAhead::store_blocks(const PageStore& pages, const Job& job) {
    for (uint64_t part = job.first; part < job.first + job.count; ++part)
        store_part(pages, job.node, job.file, part);
}

void ReadAhead::store_part(const PageStore& pages, uint64_t node, const InodeInfo& file,
                           uint64_t part) {
    const uint64_t block = reader_.super().block_size, offset = part * block;
    if (offset >= file.size_bytes) return;
    std::this_thread::yield();  // to those who wait for something now
    for (const Piece& piece : reader_.read(file, offset, block))
        if (piece.block && piece.size_bytes > 0)
            pages.store(node, offset, piece.block->data.get() + piece.offset, piece.size_bytes);
}

void ReadAhead::store_tails(const PageStore& pages, const Job& job) {
    // Tails that are equal are stored once in the image; of a hostile one, all may overlap.
    uint64_t left = kMostOfTails * reader_.super().block_size;
    for (const uint64_t node : job.tails) {
        const InodeInfo file = find_(node);
        const uint64_t whole = reader_.block_count(file) * reader_.super().block_size;
        if (file.size_bytes <= whole || file.size_bytes - whole > left) continue;
        left -= file.size_bytes - whole;
        store_part(pages, node, file, reader_.block_count(file));
    }
}

}  // namespace slipway::image::squashfs
