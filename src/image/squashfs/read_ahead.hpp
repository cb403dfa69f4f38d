// What will be read next, put into the kernel's page cache before it is asked for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "page_store.hpp"
#include "reader.hpp"

namespace slipway::image::squashfs {

/// Threads that decompress blocks ahead of the requests and hand them to the kernel. They never
/// answer a request: storing waits for pages that a READ holds (page_store.hpp), so that a thread
/// which did both would wait for itself. Memory: 16 bytes a known file (at most kMostKnown), the
/// queue, and the blocks that are just being stored, one for each thread.
class ReadAhead {
 public:
    /// The inode of a node id.
    using Find = std::function<InodeInfo(uint64_t node)>;

    /// `image`: the descriptor that the reader reads.
    ReadAhead(const ImageReader& reader, int image, Find find, unsigned threads);
    ~ReadAhead() { stop(); }
    ReadAhead(const ReadAhead&) = delete;

    /// Before the first request. Its thread creates the others, so that none is a child of a thread
    /// that answers and may be bound to a processor. `device`: the connection's.
    void start(int device);
    /// Leave this processor to others; -1: none.
    void keep_off(int processor);
    /// Store nothing more. Pre: whatever is being stored can come to its end: the device has ended.
    void stop();
    /// This file will be read from its beginning to its end, as soon as the kernel knows it.
    void expect(uint64_t node);
    /// The kernel has been told of this file: from now on it takes its pages.
    void became_known(uint64_t node, const InodeInfo& file);
    /// A READ has come, and is not answered yet.
    void will_read(uint64_t node, const InodeInfo& file, uint64_t offset, size_t size_bytes);
    /// It was answered.
    void was_read(uint64_t node, const InodeInfo& file, uint64_t offset, size_t size_bytes);

 private:
    /// Blocks [first, first + count) of a file, its tail counted as one; or the tails that share a
    /// fragment block.
    struct Job {
        uint64_t node = 0;
        InodeInfo file;
        uint64_t first = 0, count = 0;
        std::vector<uint64_t> tails;
    };
    /// How a file is being read, in blocks.
    struct Pattern {
        uint64_t next = 0;    ///< behind what was asked for last
        uint64_t stored = 0;  ///< behind what is or will be stored
        uint64_t window = 0;
    };

    uint64_t parts(const InodeInfo& file) const;
    void submit(Job job);
    void add_thread(int device);
    void work(int device, bool first);
    void store_blocks(const PageStore& pages, const Job& job);
    void store_part(const PageStore& pages, uint64_t node, const InodeInfo& file, uint64_t part);
    void store_tails(const PageStore& pages, const Job& job);
    void take_tails(uint32_t fragment, uint64_t reader);

    const ImageReader& reader_;
    const int image_;
    const Find find_;
    const unsigned most_threads_;
    std::mutex mutex_;
    std::condition_variable work_;
    bool stop_ = false;
    unsigned idle_ = 0;
    std::deque<Job> jobs_;
    std::vector<std::thread> threads_;  // started when there is something to do

    std::mutex patterns_mutex_;
    std::unordered_map<uint64_t, Pattern> patterns_;
    std::mutex known_mutex_;
    size_t known_ = 0;
    std::unordered_map<uint32_t, std::vector<uint64_t>> tails_;  // by fragment block
    std::set<uint64_t> expected_;
};

}  // namespace slipway::image::squashfs
