// A tree of SHA-256 sums over a file's chunks, and reading a file against one. Private to the image
// room.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace slipway::image {

inline constexpr uint32_t kHashChunkBytes = 128 << 10;
inline constexpr uint32_t kHashNodeBytes = 4096;
inline constexpr uint32_t kHashBytes = 32;

using HashBytes = std::array<uint8_t, kHashBytes>;

/// How a tree lies in a file: level 0 holds the chunks' sums, each further level the sums of the
/// nodes below; a level is filled up with zeros to whole nodes, and the last one is one node.
struct HashTreeShape {
    uint64_t content_bytes = 0;
    uint64_t chunks = 0;
    struct Level {
        uint64_t offset_bytes = 0;  ///< from the tree's beginning
        uint64_t nodes = 0;
    };
    std::vector<Level> levels;
    uint64_t tree_bytes = 0;
};
HashTreeShape hash_tree_shape(uint64_t content_bytes);

struct HashTree {
    HashTreeShape shape;
    std::vector<uint8_t> bytes;
    HashBytes root{};
};
/// Read the first `content_bytes` of a file on several threads and make their tree.
HashTree make_hash_tree(int fd, const std::string& subject, uint64_t content_bytes);
HashBytes sha256_bytes(const void* data, size_t size_bytes);

/// The contents of a sealed file, of which no byte is handed out before its chunk was checked
/// against the root. Nodes of the tree are read when needed and kept (1/4096 of what was read of
/// the file); so are the last 8 MiB of checked chunks. For any number of threads.
class SealedContent {
 public:
    /// `content_bytes` and `root` are those of a seal that is believed.
    SealedContent(uint64_t content_bytes, const HashBytes& root, uint64_t tree_offset_bytes);
    /// As pread; 0 at the end of the contents.
    /// Throws: Error(invalid_image) naming the chunk that was changed; SysError.
    size_t read(int fd, void* data, size_t size_bytes, uint64_t position,
                const std::string& subject) const;

 private:
    using Chunk = std::shared_ptr<const std::vector<uint8_t>>;
    using Node = std::array<uint8_t, kHashNodeBytes>;
    Chunk chunk(int fd, uint64_t number, const std::string& subject) const;
    HashBytes sum_of(int fd, size_t level, uint64_t number, const std::string& subject) const;

    const HashTreeShape shape_;
    const HashBytes root_;
    const uint64_t tree_offset_bytes_;
    mutable std::mutex mutex_;
    mutable std::map<std::pair<size_t, uint64_t>, std::shared_ptr<const Node>> nodes_;
    mutable std::unordered_map<uint64_t, Chunk> chunks_;
    mutable std::list<uint64_t> order_;  // of chunks_, the oldest first
};

}  // namespace slipway::image
