// Reading a squashfs that is not to be trusted, from any number of threads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "block_cache.hpp"
#include "disk_ahead.hpp"
#include "metadata.hpp"
#include "superblock.hpp"

namespace slipway::image::squashfs {

/// An inode, decoded. `mode` holds the type bits too.
struct InodeInfo {
    uint64_t reference = 0;
    uint32_t mode = 0, uid = 0, gid = 0, mtime = 0, number = 0, links = 1;
    uint32_t xattr = 0xffffffff;
    uint32_t device = 0;      ///< as the kernel's new_encode_dev
    uint64_t size_bytes = 0;  ///< of a file's bytes, a link's target, a directory's listing
    MetadataCursor tail;      ///< block list, link target or directory index
    uint64_t start = 0;       ///< of the file's first block
    uint32_t fragment = 0xffffffff, fragment_offset = 0;
    uint32_t listing_block = 0;  ///< of a directory
    uint16_t listing_offset = 0, index_count = 0;
    uint32_t parent_number = 0;
};

struct DirectoryEntry {
    std::string name;
    uint64_t reference = 0;
    uint32_t number = 0;
    uint32_t mode = 0;  ///< type bits only
};

/// A place in a directory listing; a value, so that it can be kept and used again.
struct DirectoryCursor {
    MetadataCursor at;
    uint32_t left_bytes = 0;
    uint32_t left_in_header = 0;
    uint32_t inode_block = 0, base_number = 0;
};

/// Bytes of a file: a part of a block, or zeros where `block` is null.
struct Piece {
    BlockPtr block;
    size_t offset = 0, size_bytes = 0;
};

/// Reads on demand; keeps decompressed metadata (at most 64 MiB) and data blocks (`cache_bytes`).
/// Every number in the file is checked against the file before it is used. All members may be
/// called from any thread. Throws: Error(invalid_image) on damage, SysError.
class ImageReader {
 public:
    /// The descriptor stays the caller's and must outlive the reader.
    ImageReader(const ImageFile& file, const std::string& subject, size_t cache_bytes = 4u << 20);

    const Superblock& super() const { return super_; }
    const std::string& subject() const { return subject_; }
    InodeInfo root() const { return inode(super_.root); }
    InodeInfo inode(uint64_t reference) const;
    std::string link_target(const InodeInfo& link) const;

    DirectoryCursor open_directory(const InodeInfo& directory) const;
    /// False at the end.
    bool next_entry(DirectoryCursor& cursor, DirectoryEntry& entry) const;
    std::optional<DirectoryEntry> lookup(const InodeInfo& directory, std::string_view name) const;
    /// Follow a path without following links.
    std::optional<InodeInfo> find(std::string_view path) const;
    /// Follow a path and the links on it, inside the image: every inode on the way from the root to
    /// where it leads, which is the last. Empty if nothing is there, or more than 40 links are.
    std::vector<InodeInfo> resolve(std::string_view path) const;

    /// Have the tables of inodes and names read from the disk at once, up to 16 MiB: they will all
    /// be wanted.
    void read_tables_ahead() const;

    bool has_xattrs() const { return xattr_ids_ > 0; }
    std::map<std::string, std::string> xattrs(const InodeInfo& inode) const;

    /// The pieces that make up [offset, offset + size) of a file, cut at its end.
    std::vector<Piece> read(const InodeInfo& file, uint64_t offset, size_t size_bytes) const;
    /// The file's whole contents. Throws: Error(invalid_image) above the limit.
    std::string read_whole(const InodeInfo& file, size_t limit_bytes) const;
    uint64_t block_count(const InodeInfo& file) const;
    /// Have a file's first bytes read from the disk, if they are not in memory.
    void read_disk_ahead(const InodeInfo& file, uint64_t size_bytes) const;
    /// True when the bytes of a file's block, or of its tail, lie in the image as they are: reading
    /// them costs no more than copying them, so that nothing is gained by reading them early. False
    /// for a sealed image.
    bool is_stored_plain(const InodeInfo& file, uint64_t number = 0) const;
    struct BlockPlace {
        uint64_t position = 0;
        uint32_t word = 0;
    };
    /// Where `count` blocks from `first` lie.
    std::vector<BlockPlace> locate(const InodeInfo& file, uint64_t first, size_t count) const;

 private:
    struct FileMap;
    void decode_type(InodeInfo& info, uint16_t type, MetadataCursor& cursor) const;
    void decode_file(InodeInfo& info, bool extended, MetadataCursor& cursor) const;
    void decode_directory(InodeInfo& info, bool extended, MetadataCursor& cursor) const;
    void skip_by_index(const InodeInfo& directory, std::string_view name,
                       DirectoryCursor& cursor) const;
    void load_ids();
    void load_xattr_ids();
    std::string xattr_value(MetadataCursor& cursor, bool elsewhere) const;
    BlockPlace fragment(uint32_t index) const;
    bool is_plain(const BlockPlace& place) const;
    size_t stored_size(const BlockPlace& place) const;
    Error too_short(const BlockPlace& place) const;
    BlockPtr block(const BlockPlace& place, size_t at_least_bytes) const;
    Piece piece(const BlockPlace& place, size_t offset, size_t size_bytes) const;

    ImageFile file_;
    std::string subject_;
    Superblock super_;
    mutable Metadata metadata_;
    mutable BlockCache blocks_;
    mutable DiskAhead disk_ahead_;
    std::vector<uint32_t> ids_;
    std::vector<uint64_t> fragment_index_, xattr_index_;
    uint64_t xattr_start_ = 0;
    uint32_t xattr_ids_ = 0;
    mutable std::mutex maps_mutex_;
    mutable std::map<uint64_t, std::shared_ptr<FileMap>> maps_;  // of large files
};

}  // namespace slipway::image::squashfs
