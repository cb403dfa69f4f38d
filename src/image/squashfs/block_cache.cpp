// The cache of data blocks.
// Must not: hold its lock while a block is read or decompressed.
#include "block_cache.hpp"

#include "patience.hpp"

namespace slipway::image::squashfs {

BlockPtr BlockCache::get(uint64_t position, const std::function<BlockPtr()>& load) {
    std::unique_lock lock(mutex_);
    for (bool told = false;; told = true) {
        const auto found = entries_.find(position);
        if (found == entries_.end()) break;
        if (found->second.block) {
            order_.splice(order_.begin(), order_, found->second.used);
            return found->second.block;
        }
        if (!told) {  // who loads it may wait for a disk
            lock.unlock();
            may_wait();
            lock.lock();
            continue;
        }
        loaded_.wait(lock);  // gone again if its loader failed: then we try ourselves
    }
    entries_.emplace(position, Entry{nullptr, order_.end()});
    lock.unlock();
    BlockPtr block;
    try {
        block = load();
        lock.lock();
        keep(position, block);
    } catch (...) {
        if (!lock) lock.lock();
        entries_.erase(position);
        loaded_.notify_all();
        throw;
    }
    loaded_.notify_all();
    return block;
}

void BlockCache::keep(uint64_t position, const BlockPtr& block) {
    order_.push_front(position);
    entries_[position] = Entry{block, order_.begin()};
    size_bytes_ += block->size_bytes;
    while (size_bytes_ > capacity_bytes_ && order_.size() > 1) {
        const auto oldest = entries_.find(order_.back());
        size_bytes_ -= oldest->second.block->size_bytes;
        entries_.erase(oldest);
        order_.pop_back();
    }
}

bool BlockCache::contains(uint64_t position) {
    const std::lock_guard lock(mutex_);
    return entries_.contains(position);
}

}  // namespace slipway::image::squashfs
