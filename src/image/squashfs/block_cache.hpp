// A bounded cache of decompressed data blocks, shared by threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace slipway::image::squashfs {

struct Block {
    std::unique_ptr<uint8_t[]> data;
    size_t size_bytes = 0;
};
using BlockPtr = std::shared_ptr<const Block>;

/// Least recently used blocks leave first. Two threads that want the same block load it once. A
/// block in use outlives its place in the cache.
class BlockCache {
 public:
    explicit BlockCache(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
    /// `load` runs without the lock; what it throws reaches everybody who waits for this block.
    BlockPtr get(uint64_t position, const std::function<BlockPtr()>& load);
    bool contains(uint64_t position);

 private:
    struct Entry {
        BlockPtr block;  // null while somebody loads it
        std::list<uint64_t>::iterator used;
    };
    void keep(uint64_t position, const BlockPtr& block);

    const size_t capacity_bytes_;
    std::mutex mutex_;
    std::condition_variable loaded_;
    size_t size_bytes_ = 0;
    std::unordered_map<uint64_t, Entry> entries_;
    std::list<uint64_t> order_;  // most recently used first
};

}  // namespace slipway::image::squashfs
