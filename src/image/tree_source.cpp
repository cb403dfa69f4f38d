// Streams a directory or a squashfs file as an image's one layer.
// Must not: write.
#include "tree_source.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "sif.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
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

SquashfsFile open_squashfs_file(const ImageRef& ref, const TrustedKeys* trusted) {
    SquashfsFile file;
    file.fd = sys::open(ref.path, O_RDONLY);
    if (ref.kind != RefKind::sif) {
        if (trusted != nullptr) file.seal = verify_seal(file.fd.get(), ref.path, *trusted).digest;
        file.info = check_squashfs(file.fd.get(), ref.path, 0, file.seal);
        file.config = read_squashfs_config(file.fd.get(), ref.path, 0, file.seal);
        return file;
    }
    const SifRoot root = find_sif_root(file.fd.get(), ref.path);
    file.offset_bytes = root.offset_bytes;
    file.info = check_squashfs(file.fd.get(), ref.path, root.offset_bytes);
    if (file.info.bytes_used > root.size_bytes) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the SIF file {} is damaged: its root file system is larger than "
                                "its partition",
                                slipway::quoted(ref.path)))
            .hint("copy or build the image again and compare checksums (sha256sum)");
    }
    file.architecture = root.architecture;
    file.warnings = root.warnings;
    file.config = read_sif_config(file.fd.get(), root, ref.path, file.warnings);
    return file;
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
    SquashfsFile file = open_squashfs_file(ref);
    for (const std::string& warning : file.warnings) log::warning("{}", warning);
    image.config = file.config.value_or(ImageConfig());
    image.open = [path, offset = file.offset_bytes] {
        return std::make_unique<WithoutConfig>(
            open_squashfs(sys::open(path, O_RDONLY), path, offset));
    };
    return image;
}

}  // namespace slipway::image
