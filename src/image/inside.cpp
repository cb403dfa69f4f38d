// Looks up paths in an image without mounting it.
// Must not: follow a link out of the image.
#include "slipway/image/inside.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <deque>

#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"
#include "squashfs/reader.hpp"

namespace slipway::image {

namespace {

constexpr size_t kSmallFile = 16u << 20;
constexpr int kMaxLinks = 40;  // the kernel's limit, path_resolution(7)

using squashfs::ImageReader;
using squashfs::InodeInfo;

/// Put a path's names in front of those that are still to be walked.
void push_front(std::deque<std::string>& names, const std::string& path) {
    const auto parts = split(path, '/');
    names.insert(names.begin(), parts.begin(), parts.end());
}

std::optional<InodeInfo> resolve(const ImageReader& reader, const std::string& path) {
    std::vector<InodeInfo> trail{reader.root()};
    std::deque<std::string> names;
    push_front(names, path);
    int links = 0;
    while (!names.empty()) {
        const std::string name = names.front();
        names.pop_front();
        if (name.empty() || name == ".") continue;
        if (!S_ISDIR(trail.back().mode)) return std::nullopt;
        if (name == "..") {
            if (trail.size() > 1) trail.pop_back();
            continue;
        }
        const auto entry = reader.lookup(trail.back(), name);
        if (!entry) return std::nullopt;
        const InodeInfo inode = reader.inode(entry->reference);
        if (!S_ISLNK(inode.mode)) {
            trail.push_back(inode);
            continue;
        }
        if (++links > kMaxLinks) return std::nullopt;
        const std::string target = reader.link_target(inode);
        if (target.starts_with('/')) trail.resize(1);
        push_front(names, target);
    }
    return trail.back();
}

}  // namespace

struct ImageInside::Squashfs {
    UniqueFd fd;
    ImageReader reader;

    explicit Squashfs(const RunnableImage& image)
        : fd(sys::open(image.path, O_RDONLY)), reader({fd.get(), image.offset_bytes}, image.path) {}
};

ImageInside::ImageInside(const RunnableImage& image) {
    if (image.kind == RunnableImage::Kind::squashfs)
        squashfs_ = std::make_unique<Squashfs>(image);
    else
        directory_ = image.path;
}

ImageInside::~ImageInside() = default;

bool ImageInside::exists(const std::string& path) const {
    if (squashfs_) return resolve(squashfs_->reader, path).has_value();
    return Root(directory_).stat(path).has_value();
}

std::optional<std::string> ImageInside::read_file(const std::string& path) const {
    if (!squashfs_) return Root(directory_).read_file_if_exists(path);
    const auto inode = resolve(squashfs_->reader, path);
    if (!inode || !S_ISREG(inode->mode)) return std::nullopt;
    return squashfs_->reader.read_whole(*inode, kSmallFile);
}

}  // namespace slipway::image
