// Metadata blocks of a squashfs: decompressed once, kept, and read through cursors.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "superblock.hpp"

namespace slipway::image::squashfs {

/// A place in a chain of metadata blocks.
struct MetadataCursor {
    uint64_t block = 0;   ///< position in the file
    uint32_t offset = 0;  ///< in the decompressed block
};

/// All threads may read at once.
class Metadata {
 public:
    Metadata(const ImageFile& file, const std::string& subject, const Superblock& super)
        : file_(file), subject_(subject), super_(super) {}
    /// Copy bytes and move the cursor behind them. Throws: Error(invalid_image) when they are not
    /// there.
    void read(MetadataCursor& cursor, void* data, size_t size_bytes);
    void skip(MetadataCursor& cursor, size_t size_bytes) { read(cursor, nullptr, size_bytes); }

 private:
    struct Block {
        std::array<uint8_t, 8192> data;
        uint32_t size_bytes = 0;
        uint64_t next = 0;
    };
    using Ptr = std::shared_ptr<const Block>;
    Ptr get(uint64_t position);
    Ptr load(uint64_t position) const;

    ImageFile file_;
    const std::string& subject_;
    const Superblock& super_;
    std::shared_mutex mutex_;
    std::unordered_map<uint64_t, Ptr> blocks_;
};

}  // namespace slipway::image::squashfs
