// Looks up paths in an image without mounting it.
// Must not: follow a link out of the image.
#include "slipway/image/inside.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "added_files.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "squashfs/reader.hpp"

namespace slipway::image {

namespace {

constexpr size_t kSmallFile = 16u << 20;

}  // namespace

ImageInside::ImageInside(const RunnableImage& image) {
    if (image.kind != RunnableImage::Kind::squashfs)
        directory_ = image.path;
    else if (image.squashfs)
        squashfs_ = image.squashfs;
    else
        squashfs_ = std::make_shared<SquashfsImage>(sys::open(image.path, O_RDONLY), image.path,
                                                    image.offset_bytes, image.seal);
}

ImageInside::~ImageInside() = default;

bool ImageInside::exists(const std::string& path) const {
    if (squashfs_) return !squashfs_->reader().resolve(path).empty();
    return Root(directory_).stat(path).has_value();
}

std::optional<std::string> ImageInside::read_file(const std::string& path) const {
    if (!squashfs_) return Root(directory_).read_file_if_exists(path);
    const auto trail = squashfs_->reader().resolve(path);
    if (trail.empty() || !S_ISREG(trail.back().mode)) return std::nullopt;
    return squashfs_->reader().read_whole(trail.back(), kSmallFile);
}

bool ImageInside::is_added(const std::string& path) const {
    const std::string relative = path.substr(path.find_first_not_of('/'));
    return is_added_file(relative, read_file(std::string("/") + kConfigPathInImage).value_or(""),
                         [this](const std::string& file) { return read_file("/" + file); });
}

}  // namespace slipway::image
