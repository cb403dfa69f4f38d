// Makes hash trees and reads files against them.
// Must not: hand out a byte that was not checked, or read the same bytes twice between check and
// use.
#include "hash_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <thread>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kSumsInNode = kHashNodeBytes / kHashBytes;
constexpr size_t kMostChunks = (8u << 20) / kHashChunkBytes;
constexpr unsigned kMostThreads = 16;

/// Fill a buffer from a file. Throws: Error(invalid_image) when the file ends before.
void read_exactly(int fd, uint8_t* data, size_t size, uint64_t position,
                  const std::string& subject) {
    for (size_t got = 0; got < size;) {
        const size_t n = sys::pread(fd, data + got, size - got, position + got, subject);
        if (n == 0)
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{} is cut off: it ends before byte {}",
                                    slipway::quoted(subject), position + size))
                .hint("copy the image again");
        got += n;
    }
}

size_t chunk_bytes(const HashTreeShape& shape, uint64_t number) {
    return std::min<uint64_t>(kHashChunkBytes, shape.content_bytes - number * kHashChunkBytes);
}

/// The sums of all chunks, into the tree's level 0.
void hash_chunks(int fd, const std::string& subject, HashTree& tree) {
    std::atomic<uint64_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&] {
        try {
            std::vector<uint8_t> buffer(kHashChunkBytes);
            for (uint64_t i = next++; i < tree.shape.chunks; i = next++) {
                const size_t size = chunk_bytes(tree.shape, i);
                read_exactly(fd, buffer.data(), size, i * kHashChunkBytes, subject);
                const HashBytes sum = sha256_bytes(buffer.data(), size);
                std::copy(sum.begin(), sum.end(), tree.bytes.begin() + i * kHashBytes);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
            next = tree.shape.chunks;
        }
    };
    std::vector<std::thread> threads;
    const auto most = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
    for (unsigned i = 1; i < most && i < tree.shape.chunks; ++i) threads.emplace_back(work);
    work();
    for (auto& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

HashBytes sha256_bytes(const void* data, size_t size_bytes) {
    Sha256 hash;
    hash.update(data, size_bytes);
    const auto sum = hash.finish_bytes();
    HashBytes bytes;
    std::memcpy(bytes.data(), sum.data(), bytes.size());
    return bytes;
}

HashTreeShape hash_tree_shape(uint64_t content_bytes) {
    HashTreeShape shape;
    shape.content_bytes = content_bytes;
    shape.chunks = (content_bytes + kHashChunkBytes - 1) / kHashChunkBytes;
    for (uint64_t sums = shape.chunks; shape.levels.empty() || sums > 1;) {
        const uint64_t nodes = std::max<uint64_t>(1, (sums + kSumsInNode - 1) / kSumsInNode);
        shape.levels.push_back({shape.tree_bytes, nodes});
        shape.tree_bytes += nodes * kHashNodeBytes;
        sums = nodes;
    }
    return shape;
}

HashTree make_hash_tree(int fd, const std::string& subject, uint64_t content_bytes) {
    HashTree tree{hash_tree_shape(content_bytes), {}, {}};
    tree.bytes.resize(tree.shape.tree_bytes);
    hash_chunks(fd, subject, tree);
    for (size_t level = 1; level < tree.shape.levels.size(); ++level) {
        const auto& below = tree.shape.levels[level - 1];
        uint8_t* to = tree.bytes.data() + tree.shape.levels[level].offset_bytes;
        for (uint64_t i = 0; i < below.nodes; ++i, to += kHashBytes) {
            const HashBytes sum = sha256_bytes(
                tree.bytes.data() + below.offset_bytes + i * kHashNodeBytes, kHashNodeBytes);
            std::copy(sum.begin(), sum.end(), to);
        }
    }
    tree.root =
        sha256_bytes(tree.bytes.data() + tree.shape.levels.back().offset_bytes, kHashNodeBytes);
    return tree;
}

SealedContent::SealedContent(uint64_t content_bytes, const HashBytes& root,
                             uint64_t tree_offset_bytes)
    : shape_(hash_tree_shape(content_bytes)), root_(root), tree_offset_bytes_(tree_offset_bytes) {}

HashBytes SealedContent::sum_of(int fd, size_t level, uint64_t number,
                                const std::string& subject) const {
    if (level == shape_.levels.size()) return root_;
    const uint64_t place = number / kSumsInNode;
    std::shared_ptr<const Node> node;
    {
        const std::lock_guard lock(mutex_);
        const auto found = nodes_.find({level, place});
        if (found != nodes_.end()) node = found->second;
    }
    if (!node) {
        const HashBytes wanted = sum_of(fd, level + 1, place, subject);
        auto fresh = std::make_shared<Node>();
        const uint64_t at =
            tree_offset_bytes_ + shape_.levels[level].offset_bytes + place * kHashNodeBytes;
        read_exactly(fd, fresh->data(), fresh->size(), at, subject);
        if (sha256_bytes(fresh->data(), fresh->size()) != wanted)
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{} was changed after it was signed: the hash tree differs at "
                                    "byte {}",
                                    slipway::quoted(subject), at))
                .hint("copy or build the image again");
        node = std::move(fresh);
        const std::lock_guard lock(mutex_);
        nodes_.try_emplace({level, place}, node);
    }
    HashBytes sum;
    std::memcpy(sum.data(), node->data() + number % kSumsInNode * kHashBytes, sum.size());
    return sum;
}

SealedContent::Chunk SealedContent::chunk(int fd, uint64_t number,
                                          const std::string& subject) const {
    {
        const std::lock_guard lock(mutex_);
        const auto found = chunks_.find(number);
        if (found != chunks_.end()) return found->second;
    }
    std::vector<uint8_t> bytes(chunk_bytes(shape_, number));
    const uint64_t at = number * kHashChunkBytes;
    read_exactly(fd, bytes.data(), bytes.size(), at, subject);
    if (sha256_bytes(bytes.data(), bytes.size()) != sum_of(fd, 0, number, subject))
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} was changed after it was signed: bytes {} to {} differ",
                                slipway::quoted(subject), at, at + bytes.size() - 1))
            .hint("copy or build the image again");
    auto checked = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    const std::lock_guard lock(mutex_);
    if (chunks_.try_emplace(number, checked).second) order_.push_back(number);
    if (order_.size() > kMostChunks) {
        chunks_.erase(order_.front());
        order_.pop_front();
    }
    return checked;
}

size_t SealedContent::read(int fd, void* data, size_t size_bytes, uint64_t position,
                           const std::string& subject) const {
    if (position >= shape_.content_bytes) return 0;
    const size_t size = std::min<uint64_t>(size_bytes, shape_.content_bytes - position);
    auto* to = static_cast<uint8_t*>(data);
    for (size_t done = 0; done < size;) {
        const uint64_t at = position + done;
        const Chunk from = chunk(fd, at / kHashChunkBytes, subject);
        const size_t offset = at % kHashChunkBytes;
        const size_t part = std::min(size - done, from->size() - offset);
        std::memcpy(to + done, from->data() + offset, part);
        done += part;
    }
    return size;
}

}  // namespace slipway::image
