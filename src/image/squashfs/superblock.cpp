// What a squashfs says of itself, believed only as far as the file bears it out.
// Must not: read anything but the first 96 bytes.
#include "superblock.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "decompress.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr size_t kSuperblockBytes = 96;

Error not_squashfs(const std::string& subject, const std::string& why) {
    return Error(ErrorKind::invalid_image,
                 fmt::format("{} is no squashfs file: {}", slipway::quoted(subject), why))
        .hint("give a file made by: slipway build -o FILE.sqfs, slipway convert, or mksquashfs");
}

Superblock decode(const uint8_t* b) {
    Superblock super;
    super.inodes = le32(b + 4);
    super.modified = le32(b + 8);
    super.block_size = le32(b + 12);
    super.fragments = le32(b + 16);
    super.codec = le16(b + 20);
    super.flags = le16(b + 24);
    super.ids = le16(b + 26);
    super.root = le64(b + 32);
    super.bytes_used = le64(b + 40);
    super.id_table = le64(b + 48);
    super.xattr_table = le64(b + 56);
    super.inode_table = le64(b + 64);
    super.directory_table = le64(b + 72);
    super.fragment_table = le64(b + 80);
    super.export_table = le64(b + 88);
    return super;
}

void require_table(const Superblock& super, uint64_t start, uint64_t size, const char* name,
                   const std::string& subject) {
    if (start < kSuperblockBytes || start > super.bytes_used || size > super.bytes_used - start)
        throw damaged(subject, fmt::format("its {} table lies outside the file", name));
}

void check_tables(const Superblock& super, const std::string& subject) {
    const auto list_bytes = [](uint64_t entries, uint64_t each) {
        return (entries * each + 8191) / 8192 * 8;
    };
    require_table(super, super.inode_table, 3, "inode", subject);
    require_table(super, super.directory_table, 0, "directory", subject);
    if (super.inode_table >= super.directory_table)
        throw damaged(subject, "its inode table lies behind its directory table");
    if (super.ids == 0) throw damaged(subject, "it has no owners");
    require_table(super, super.id_table, list_bytes(super.ids, 4), "owner", subject);
    if (super.fragments > 0)
        require_table(super, super.fragment_table, list_bytes(super.fragments, 16), "fragment",
                      subject);
    if (super.export_table != kNoTable)
        require_table(super, super.export_table, list_bytes(super.inodes, 8), "export", subject);
    if (super.xattr_table != kNoTable)
        require_table(super, super.xattr_table, 16, "extended attribute", subject);
    if ((super.root >> 16) >= super.directory_table - super.inode_table ||
        (super.root & 0xffff) >= 8192)
        throw damaged(subject, "its root directory lies outside its inode table");
}

}  // namespace

Error damaged(const std::string& subject, const std::string& detail) {
    return Error(ErrorKind::invalid_image,
                 fmt::format("the squashfs {} is damaged: {}", slipway::quoted(subject), detail))
        .hint("copy or build the image again and compare checksums (sha256sum)");
}

Superblock read_superblock(const ImageFile& file, const std::string& subject) {
    uint8_t bytes[kSuperblockBytes] = {};
    const size_t got = file.read(bytes, sizeof bytes, 0, subject);
    if (got < 4 || std::memcmp(bytes, "hsqs", 4) != 0)
        throw not_squashfs(subject, got == 0 ? "it is empty" : "its first bytes are not \"hsqs\"");
    if (got < sizeof bytes) throw damaged(subject, fmt::format("it has only {} bytes", got));
    const Superblock super = decode(bytes);
    const uint16_t log = le16(bytes + 22), major = le16(bytes + 28), minor = le16(bytes + 30);
    if (major != 4 || minor != 0)
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is squashfs version {}.{}; only 4.0 can be read",
                                slipway::quoted(subject), major, minor))
            .hint("make it again with mksquashfs 4.0 or later");
    if (!std::has_single_bit(super.block_size) || super.block_size < 4096 ||
        super.block_size > (1u << 20) || log != std::countr_zero(super.block_size))
        throw damaged(subject, fmt::format("it claims blocks of {} bytes", super.block_size));
    if (codec_name(super.codec).empty())
        throw damaged(subject, fmt::format("it names an unknown codec, {}", super.codec));
    if (!codec_supported(super.codec))
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is compressed with {}, which this build cannot read",
                                slipway::quoted(subject), codec_name(super.codec)))
            .hint("make it again with: mksquashfs ... -comp zstd");
    const uint64_t size = file.size_bytes(subject);
    if (super.bytes_used > size)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is cut off: it has {} bytes of {}", slipway::quoted(subject),
                                size, super.bytes_used))
            .hint(fmt::format("copy the image again; its size should be {} bytes or a little more",
                              super.bytes_used));
    check_tables(super, subject);
    return super;
}

}  // namespace slipway::image::squashfs
