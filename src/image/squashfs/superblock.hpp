// The superblock of a squashfs, read and checked.
#pragma once

#include <cstdint>
#include <string>

#include "image_file.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image::squashfs {

inline constexpr uint64_t kNoTable = ~uint64_t{0};

/// Little-endian numbers at any address.
inline uint16_t le16(const void* at) {
    const auto* b = static_cast<const uint8_t*>(at);
    return static_cast<uint16_t>(b[0] | b[1] << 8);
}
inline uint32_t le32(const void* at) {
    const auto* b = static_cast<const uint8_t*>(at);
    return b[0] | b[1] << 8 | b[2] << 16 | static_cast<uint32_t>(b[3]) << 24;
}
inline uint64_t le64(const void* at) {
    return le32(at) | static_cast<uint64_t>(le32(static_cast<const uint8_t*>(at) + 4)) << 32;
}

/// Source: Documentation/filesystems/squashfs.rst of the kernel; all tables lie in bytes_used.
struct Superblock {
    uint32_t inodes = 0, modified = 0, block_size = 0, fragments = 0;
    uint16_t codec = 0, flags = 0, ids = 0;
    uint64_t root = 0, bytes_used = 0;
    uint64_t id_table = 0, xattr_table = 0, inode_table = 0, directory_table = 0;
    uint64_t fragment_table = 0, export_table = 0;
};

/// Throws: Error(invalid_image) with the reason and the remedy.
Superblock read_superblock(const ImageFile& file, const std::string& subject);
/// An error that says that a squashfs is damaged, and where.
Error damaged(const std::string& subject, const std::string& detail);

}  // namespace slipway::image::squashfs
