// Superblock, inodes, directories and paths of a squashfs.
// Must not: trust a number that the file holds before it was checked against the file.
#include "reader.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>

namespace slipway::image::squashfs {
namespace {

// Types of inodes: 1 to 7, and the same with more members from 8 on.
enum Type : uint16_t {
    kDirectory = 1,
    kFile,
    kSymlink,
    kBlockDevice,
    kCharDevice,
    kFifo,
    kSocket,
    kExtended = 7
};
constexpr uint32_t kTypeBits[] = {0,       S_IFDIR, S_IFREG, S_IFLNK,
                                  S_IFBLK, S_IFCHR, S_IFIFO, S_IFSOCK};
constexpr uint64_t kLongestTarget = 65536;
constexpr int kMostLinks = 40;      // as the kernel's MAXSYMLINKS
constexpr uint32_t kDotsBytes = 3;  // a listing's size counts "." and "..", which it has not

/// Read N bytes and hand out little-endian numbers.
template <size_t N>
struct Record {
    uint8_t bytes[N];
    Record(Metadata& metadata, MetadataCursor& cursor) { metadata.read(cursor, bytes, N); }
    uint16_t u16(size_t at) const { return le16(bytes + at); }
    uint32_t u32(size_t at) const { return le32(bytes + at); }
    uint64_t u64(size_t at) const { return le64(bytes + at); }
};

}  // namespace

ImageReader::ImageReader(const ImageFile& file, const std::string& subject, size_t cache_bytes)
    : file_(file),
      subject_(subject),
      super_(read_superblock(file, subject)),
      metadata_(file_, subject_, super_),
      blocks_(cache_bytes),
      disk_ahead_(file_) {
    load_ids();
    load_xattr_ids();
}

InodeInfo ImageReader::inode(uint64_t reference) const {
    InodeInfo info;
    info.reference = reference;
    const uint64_t block = reference >> 16;
    if (block >= super_.directory_table - super_.inode_table)
        throw damaged(subject_, fmt::format("inode {:#x} lies outside its table", reference));
    MetadataCursor cursor{super_.inode_table + block, static_cast<uint32_t>(reference & 0xffff)};
    const Record<16> base(metadata_, cursor);
    const uint16_t type = base.u16(0);
    if (type == 0 || type > 2 * kExtended)
        throw damaged(subject_, fmt::format("inode {:#x} has type {}", reference, type));
    const uint16_t uid = base.u16(4), gid = base.u16(6);
    if (uid >= ids_.size() || gid >= ids_.size())
        throw damaged(subject_, fmt::format("inode {:#x} has an unknown owner", reference));
    info.mode = (base.u16(2) & 07777) | kTypeBits[type > kExtended ? type - kExtended : type];
    info.uid = ids_[uid];
    info.gid = ids_[gid];
    info.mtime = base.u32(8);
    info.number = base.u32(12);
    decode_type(info, type, cursor);
    return info;
}

void ImageReader::decode_type(InodeInfo& info, uint16_t type, MetadataCursor& cursor) const {
    const bool extended = type > kExtended;
    switch (extended ? type - kExtended : type) {
        case kDirectory:
            return decode_directory(info, extended, cursor);
        case kFile:
            return decode_file(info, extended, cursor);
        case kSymlink: {
            const Record<8> record(metadata_, cursor);
            info.links = record.u32(0);
            info.size_bytes = record.u32(4);
            info.tail = cursor;
            if (info.size_bytes > kLongestTarget)
                throw damaged(subject_, fmt::format("link {:#x} is too long", info.reference));
            if (extended) {
                metadata_.skip(cursor, info.size_bytes);
                info.xattr = Record<4>(metadata_, cursor).u32(0);
            }
            return;
        }
        case kBlockDevice:
        case kCharDevice: {
            const Record<8> record(metadata_, cursor);
            info.links = record.u32(0);
            info.device = record.u32(4);
            break;
        }
        default:
            info.links = Record<4>(metadata_, cursor).u32(0);
    }
    if (extended) info.xattr = Record<4>(metadata_, cursor).u32(0);
}

void ImageReader::decode_file(InodeInfo& info, bool extended, MetadataCursor& cursor) const {
    if (extended) {
        const Record<40> record(metadata_, cursor);
        info.start = record.u64(0);
        info.size_bytes = record.u64(8);
        info.links = record.u32(24);
        info.fragment = record.u32(28);
        info.fragment_offset = record.u32(32);
        info.xattr = record.u32(36);
    } else {
        const Record<16> record(metadata_, cursor);
        info.start = record.u32(0);
        info.fragment = record.u32(4);
        info.fragment_offset = record.u32(8);
        info.size_bytes = record.u32(12);
    }
    if (info.size_bytes > static_cast<uint64_t>(INT64_MAX))
        throw damaged(subject_, fmt::format("file {:#x} is too large", info.reference));
    info.tail = cursor;
}

void ImageReader::decode_directory(InodeInfo& info, bool extended, MetadataCursor& cursor) const {
    if (extended) {
        const Record<24> record(metadata_, cursor);
        info.links = record.u32(0);
        info.size_bytes = record.u32(4);
        info.listing_block = record.u32(8);
        info.parent_number = record.u32(12);
        info.index_count = record.u16(16);
        info.listing_offset = record.u16(18);
        info.xattr = record.u32(20);
    } else {
        const Record<16> record(metadata_, cursor);
        info.listing_block = record.u32(0);
        info.links = record.u32(4);
        info.size_bytes = record.u16(8);
        info.listing_offset = record.u16(10);
        info.parent_number = record.u32(12);
    }
    info.tail = cursor;
}

std::string ImageReader::link_target(const InodeInfo& link) const {
    std::string target(link.size_bytes, '\0');
    MetadataCursor cursor = link.tail;
    metadata_.read(cursor, target.data(), target.size());
    return target;
}

DirectoryCursor ImageReader::open_directory(const InodeInfo& directory) const {
    DirectoryCursor cursor;
    cursor.at = {super_.directory_table + directory.listing_block, directory.listing_offset};
    if (directory.size_bytes > kDotsBytes)
        cursor.left_bytes = static_cast<uint32_t>(directory.size_bytes - kDotsBytes);
    return cursor;
}

bool ImageReader::next_entry(DirectoryCursor& cursor, DirectoryEntry& entry) const {
    const auto take = [&](uint32_t bytes) {
        if (cursor.left_bytes < bytes) throw damaged(subject_, "a directory listing is cut off");
        cursor.left_bytes -= bytes;
    };
    if (cursor.left_in_header == 0) {
        if (cursor.left_bytes == 0) return false;
        take(12);
        const Record<12> header(metadata_, cursor.at);
        const uint32_t count = header.u32(0);
        if (count >= 256) throw damaged(subject_, "a directory listing has a bad header");
        cursor.left_in_header = count + 1;
        cursor.inode_block = header.u32(4);
        cursor.base_number = header.u32(8);
    }
    take(8);
    const Record<8> record(metadata_, cursor.at);
    const uint16_t type = record.u16(4), length = record.u16(6);
    if (length >= 256 || type == 0 || type > kExtended)
        throw damaged(subject_, "a directory listing has a bad entry");
    take(length + 1u);
    entry.name.resize(length + 1u);
    metadata_.read(cursor.at, entry.name.data(), entry.name.size());
    entry.reference = static_cast<uint64_t>(cursor.inode_block) << 16 | record.u16(0);
    entry.number = cursor.base_number + static_cast<uint32_t>(static_cast<int16_t>(record.u16(2)));
    entry.mode = kTypeBits[type];
    --cursor.left_in_header;
    return true;
}

void ImageReader::skip_by_index(const InodeInfo& directory, std::string_view name,
                                DirectoryCursor& cursor) const {
    MetadataCursor at = directory.tail;
    std::string first;
    for (uint32_t i = 0; i < directory.index_count; ++i) {
        const Record<12> record(metadata_, at);
        const uint32_t skipped = record.u32(0), length = record.u32(8);
        if (length >= 256) throw damaged(subject_, "a directory index has a bad entry");
        first.resize(length + 1u);
        metadata_.read(at, first.data(), first.size());
        if (first > name) return;
        if (skipped > directory.size_bytes - kDotsBytes)
            throw damaged(subject_, "a directory index leads outside its directory");
        cursor.at = {super_.directory_table + record.u32(4),
                     (directory.listing_offset + skipped) % 8192};
        cursor.left_bytes = static_cast<uint32_t>(directory.size_bytes - kDotsBytes) - skipped;
    }
}

std::optional<DirectoryEntry> ImageReader::lookup(const InodeInfo& directory,
                                                  std::string_view name) const {
    DirectoryCursor cursor = open_directory(directory);
    if (cursor.left_bytes > 0) skip_by_index(directory, name, cursor);
    DirectoryEntry entry;
    while (next_entry(cursor, entry)) {
        if (entry.name == name) return entry;
        // Listings are sorted; the kernel too stops at a greater first byte.
        if (static_cast<uint8_t>(entry.name[0]) > static_cast<uint8_t>(name[0])) break;
    }
    return std::nullopt;
}

std::optional<InodeInfo> ImageReader::find(std::string_view path) const {
    InodeInfo current = root();
    while (!path.empty()) {
        const size_t slash = path.find('/');
        const std::string_view name = path.substr(0, slash);
        path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
        if (name.empty() || name == ".") continue;
        if (!S_ISDIR(current.mode)) return std::nullopt;
        const auto entry = lookup(current, name);
        if (!entry) return std::nullopt;
        current = inode(entry->reference);
    }
    return current;
}

std::vector<InodeInfo> ImageReader::resolve(std::string_view path) const {
    std::vector<InodeInfo> trail{root()};
    std::vector<std::string> left;  // names to be walked, the next one last
    const auto put_in_front = [&left](std::string_view names) {
        for (size_t slash = 0; slash != std::string_view::npos;) {
            slash = names.rfind('/');
            left.emplace_back(names.substr(slash == std::string_view::npos ? 0 : slash + 1));
            if (slash != std::string_view::npos) names = names.substr(0, slash);
        }
    };
    put_in_front(path);
    for (int links = 0; !left.empty();) {
        const std::string name = std::move(left.back());
        left.pop_back();
        if (name.empty() || name == ".") continue;
        if (!S_ISDIR(trail.back().mode)) return {};
        if (name == "..") {
            if (trail.size() > 1) trail.pop_back();
            continue;
        }
        const auto entry = lookup(trail.back(), name);
        if (!entry) return {};
        const InodeInfo info = inode(entry->reference);
        if (!S_ISLNK(info.mode)) {
            trail.push_back(info);
            continue;
        }
        if (++links > kMostLinks || info.size_bytes >= PATH_MAX) return {};
        const std::string target = link_target(info);
        if (target.starts_with('/')) trail.resize(1);
        put_in_front(target);
    }
    return trail;
}

}  // namespace slipway::image::squashfs
