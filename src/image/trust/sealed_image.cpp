// Makes and finds the sealed squashfs files of a store.
// Must not: seal a file that was not made in this moment: what it holds now is nobody's word.
#include "sealed_image.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include "../squashfs/superblock.hpp"
#include "seal.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::image {
namespace {

constexpr std::string_view kSuffix = ".sqfs";
constexpr size_t kHexDigits = 64;

/// Seal a file that was just written; returns the seal's digest.
Digest seal_file(const std::string& path) {
    const UniqueFd fd = sys::open(path, O_RDWR);
    Seal seal;
    seal.content_bytes = seal_offset(fd.get(), path);
    sys::ftruncate(fd.get(), static_cast<off_t>(seal.content_bytes), path);
    const HashTree tree = make_hash_tree(fd.get(), path, seal.content_bytes);
    seal.root = tree.root;
    write_seal(fd.get(), path, seal, tree);
    sys::fsync(fd.get(), path);
    return seal.digest();
}

bool is_sealed_as_named(const std::string& path) {
    try {
        const UniqueFd fd = sys::open(path, O_RDONLY);
        const auto seal = read_seal(fd.get(), path);
        return seal && seal->digest() == seal_in_name(path);
    } catch (const Error& error) {
        log::verbose("{} is made anew: {}", path, error.message());
        return false;
    }
}

}  // namespace

Digest seal_in_name(const std::string& path) {
    const std::string name(base_name(path));
    return Digest::parse("sha256:" +
                         name.substr(name.size() - kSuffix.size() - kHexDigits, kHexDigits));
}

std::string find_sealed_squashfs(const std::string& key, const Store& store) {
    const std::string directory = join_path(store.directory(), "squashfs");
    const auto fd = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!fd) return {};
    for (const std::string& name : sys::list_directory(fd->get(), directory)) {
        if (name.size() != key.size() + 1 + kHexDigits + kSuffix.size() ||
            !name.starts_with(key + "-") || !name.ends_with(kSuffix))
            continue;
        const std::string path = join_path(directory, name);
        if (is_sealed_as_named(path)) return path;
    }
    return {};
}

std::vector<std::string> make_sealed_squashfs(const OciImage& image, const std::string& key,
                                              const Store& store) {
    const TempDir directory = store.temporary_directory();
    const std::string unfinished = join_path(directory.path(), "squashfs");
    SquashfsReport report = write_squashfs(image, unfinished, store);
    const Digest seal = seal_file(unfinished);
    const std::string path =
        join_path(store.subdirectory("squashfs"), fmt::format("{}-{}{}", key, seal.hex(), kSuffix));
    sys::renameat(AT_FDCWD, unfinished, AT_FDCWD, path);
    return std::move(report.warnings);
}

}  // namespace slipway::image
