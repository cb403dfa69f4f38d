// Questions about a squashfs file: is it whole, what is inside at a path, what is its config.
// Must not: write anything.
#include <fmt/format.h>
#include <sys/stat.h>

#include <set>

#include "decompress.hpp"
#include "reader.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image {
namespace {

using squashfs::ImageReader;
using squashfs::InodeInfo;

constexpr size_t kSmallFile = 16u << 20;

}  // namespace

SquashfsInfo check_squashfs(int fd, const std::string& subject, uint64_t offset_bytes,
                            const Digest& seal) {
    const ImageReader reader(squashfs::open_image(fd, offset_bytes, subject, seal), subject, 0);
    const InodeInfo root = reader.root();
    if (!S_ISDIR(root.mode)) throw squashfs::damaged(subject, "its root is no directory");
    const squashfs::Superblock& super = reader.super();
    SquashfsInfo info;
    info.codec = squashfs::codec_name(super.codec);
    info.block_size_bytes = super.block_size;
    info.inodes = super.inodes;
    info.bytes_used = super.bytes_used;
    info.modified = super.modified;
    return info;
}

std::optional<std::string> read_squashfs_file(int fd, const std::string& path,
                                              const std::string& subject, uint64_t offset_bytes,
                                              const Digest& seal) {
    const ImageReader reader(squashfs::open_image(fd, offset_bytes, subject, seal), subject);
    const auto inode = reader.find(path);
    if (!inode || !S_ISREG(inode->mode)) return std::nullopt;
    return reader.read_whole(*inode, kSmallFile);
}

std::optional<ImageConfig> read_squashfs_config(int fd, const std::string& subject,
                                                uint64_t offset_bytes, const Digest& seal) {
    const auto text = read_squashfs_file(fd, kConfigPathInImage, subject, offset_bytes, seal);
    if (!text) return std::nullopt;
    const std::string where = fmt::format("{} in {}", kConfigPathInImage, subject);
    return config_from_json(parse_json(*text, where), where);
}

}  // namespace slipway::image
