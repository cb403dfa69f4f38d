// Streams a directory or a squashfs file as an image's one layer.
// Must not: write.
#include "tree_source.hpp"

#include <unistd.h>

#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

/// A stream without the config document and the directory that we made for it.
class WithoutConfig : public EntrySource {
 public:
    explicit WithoutConfig(std::unique_ptr<EntrySource> source) : source_(std::move(source)) {}
    bool next(Entry& entry) override {
        while (source_->next(entry)) {
            bool ours = entry.path == kConfigPathInImage ||
                        (entry.path == parent_path(kConfigPathInImage) &&
                         entry.type == EntryType::directory);
            if (!ours) return true;
        }
        return false;
    }
    size_t read(void* data, size_t size_bytes) override { return source_->read(data, size_bytes); }

 private:
    std::unique_ptr<EntrySource> source_;
};

std::pair<uint32_t, uint32_t> owner_in_image(const std::string&, uint32_t uid, uint32_t gid) {
    return {uid == ::geteuid() ? 0 : uid, gid == ::getegid() ? 0 : gid};
}

}  // namespace

ImageConfig read_directory_config(const std::string& directory) {
    auto text = Root(directory).read_file_if_exists(kConfigPathInImage);
    if (!text) return {};
    std::string subject = join_path(directory, kConfigPathInImage);
    return config_from_json(parse_json(*text, subject), subject);
}

TreeImage open_tree_image(const ImageRef& ref) {
    TreeImage image;
    std::string path = absolute_path(ref.path);
    if (ref.kind == RefKind::directory) {
        image.config = read_directory_config(path);
        image.open = [path] {
            return std::make_unique<WithoutConfig>(open_directory(path, owner_in_image));
        };
        return image;
    }
    UniqueFd fd = sys::open(path, O_RDONLY);
    check_squashfs(fd.get(), ref.path);
    image.config = read_squashfs_config(fd.get(), ref.path).value_or(ImageConfig());
    image.open = [path] {
        return std::make_unique<WithoutConfig>(open_squashfs(sys::open(path, O_RDONLY), path));
    };
    return image;
}

}  // namespace slipway::image
