// An open squashfs file: is it whole, what is inside at a path, what is its config.
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

constexpr size_t kSmallFile = 16u << 20;
constexpr size_t kCacheBytes = 48u << 20;  // of data blocks

}  // namespace

SquashfsImage::SquashfsImage(UniqueFd fd, const std::string& subject, uint64_t offset_bytes,
                             const Digest& seal)
    : fd_(std::move(fd)),
      reader_(std::make_unique<const ImageReader>(
          squashfs::open_image(fd_.get(), offset_bytes, subject, seal), subject, kCacheBytes)) {
    if (!S_ISDIR(reader_->root().mode))
        throw squashfs::damaged(subject, "its root is no directory");
}

SquashfsImage::~SquashfsImage() = default;

SquashfsInfo SquashfsImage::info() const {
    const squashfs::Superblock& super = reader_->super();
    SquashfsInfo info;
    info.codec = squashfs::codec_name(super.codec);
    info.block_size_bytes = super.block_size;
    info.inodes = super.inodes;
    info.bytes_used = super.bytes_used;
    info.modified = super.modified;
    return info;
}

std::optional<std::string> SquashfsImage::read_file(const std::string& path) const {
    const auto inode = reader_->find(path);
    if (!inode || !S_ISREG(inode->mode)) return std::nullopt;
    return reader_->read_whole(*inode, kSmallFile);
}

std::optional<ImageConfig> SquashfsImage::config(ConfigScope scope) const {
    const auto text = read_file(kConfigPathInImage);
    if (!text) return std::nullopt;
    const std::string where = fmt::format("{} in {}", kConfigPathInImage, reader_->subject());
    return config_in_image(*text, where, scope);
}

}  // namespace slipway::image
