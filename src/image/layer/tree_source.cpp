// Streams a directory or a squashfs file as an image's one layer.
// Must not: write.
#include "tree_source.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../added_files.hpp"
#include "../oci/archive_blobs.hpp"
#include "../sif/sif.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

/// One blob, in a file without a name.
class OneBlob : public BlobSource {
 public:
    OneBlob(UniqueFd fd, Digest digest) : fd_(std::move(fd)), digest_(std::move(digest)) {}
    UniqueFd open_blob(const Digest& digest) const override {
        if (digest != digest_)
            throw Error(ErrorKind::internal, fmt::format("there is no blob {}", digest.text()));
        return sys::open(fmt::format("/proc/self/fd/{}", fd_.get()), O_RDONLY);
    }

 private:
    UniqueFd fd_;
    Digest digest_;
};

std::pair<uint32_t, uint32_t> owner_in_image(const std::string&, uint32_t uid, uint32_t gid) {
    return {uid == ::geteuid() ? 0 : uid, gid == ::getegid() ? 0 : gid};
}

/// A regular file, a link at its end not followed; std::nullopt if there is none.
std::optional<std::string> read_regular(const Root& root, const std::string& path) {
    const auto status = root.stat(path, false);
    if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
    return root.read_file_if_exists(path);
}

}  // namespace

std::optional<ImageConfig> read_directory_config(const std::string& directory, ConfigScope scope) {
    auto text = Root(directory).read_file_if_exists(kConfigPathInImage);
    if (!text) return std::nullopt;
    std::string subject = join_path(directory, kConfigPathInImage);
    return config_in_image(*text, subject, scope);
}

OciImage as_one_layer(const TreeImage& tree, std::optional<int64_t> source_date_epoch) {
    UniqueFd fd = scratch_file();
    LayerWriter writer(fd.get(), LayerCompression::gzip, source_date_epoch);
    writer.add_all(*tree.open());
    OciImage image;
    image.layers = {writer.finish()};
    image.config = tree.config;
    image.config.become_one_layer(image.layers[0].diff_id);
    image.blobs = std::make_shared<OneBlob>(std::move(fd), image.layers[0].digest);
    return image;
}

SquashfsFile open_squashfs_file(const ImageRef& ref, const TrustedKeys* trusted,
                                ConfigScope scope) {
    SquashfsFile file;
    UniqueFd fd = sys::open(ref.path, O_RDONLY);
    if (ref.kind != RefKind::sif) {
        if (trusted != nullptr) file.seal = verify_seal(fd.get(), ref.path, *trusted).digest;
        file.image = std::make_shared<SquashfsImage>(std::move(fd), ref.path, 0, file.seal);
        file.config = file.image->config(scope);
        return file;
    }
    const SifRoot root = find_sif_root(fd.get(), ref.path);
    file.offset_bytes = root.offset_bytes;
    file.image = std::make_shared<SquashfsImage>(std::move(fd), ref.path, root.offset_bytes);
    if (file.image->info().bytes_used > root.size_bytes) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the SIF file {} is damaged: its root file system is larger than "
                                "its partition",
                                slipway::quoted(ref.path)))
            .hint("copy or build the image again and compare checksums (sha256sum)");
    }
    file.architecture = root.architecture;
    file.warnings = root.warnings;
    file.config = read_sif_config(*file.image, root, ref.path, file.warnings);
    return file;
}

TreeImage open_tree_image(const ImageRef& ref) {
    TreeImage image;
    std::string path = absolute_path(ref.path);
    if (ref.kind == RefKind::directory) {
        image.config = read_directory_config(path).value_or(ImageConfig());
        image.open = [path] {
            const Root root(path);
            return without_added_files(
                open_directory(path, owner_in_image),
                root.read_file_if_exists(kConfigPathInImage).value_or(""),
                [&root](const std::string& name) { return read_regular(root, name); });
        };
        return image;
    }
    SquashfsFile file = open_squashfs_file(ref);
    for (const std::string& warning : file.warnings) log::warning("{}", warning);
    image.config = file.config.value_or(ImageConfig());
    image.open = [path, opened = file.image, offset = file.offset_bytes] {
        const auto read = [&](const std::string& name) { return opened->read_file(name); };
        UniqueFd fd(::fcntl(opened->fd(), F_DUPFD_CLOEXEC, 3));  // the file that was looked at
        if (!fd) throw SysError("cannot duplicate a descriptor", "fcntl");
        return without_added_files(open_squashfs(std::move(fd), path, offset),
                                   read(kConfigPathInImage).value_or(""), read);
    };
    return image;
}

}  // namespace slipway::image
