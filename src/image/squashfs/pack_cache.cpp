// The cache of packs: a file per layer, codec, level and block size.
// Must not: let a pack be seen under its name before it is whole.
#include "pack_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {
namespace {

/// A file with a name that is not yet the final one; removed unless renamed.
struct Unfinished {
    std::string path;
    explicit Unfinished(const std::string& final_path) : path(final_path + ".XXXXXX") {}
    ~Unfinished() {
        if (!path.empty()) ::unlink(path.c_str());
    }
};

}  // namespace

UniqueFd PackCache::unnamed_file() const {
    const std::string directory(parent_path(absolute_path(output_)));
    std::string name = join_path(directory, ".slipway-pack.XXXXXX");
    UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd)
        throw SysError(fmt::format("cannot write in {}", slipway::quoted(directory)), "mkostemp");
    sys::unlinkat(AT_FDCWD, name);
    return fd;
}

std::string PackCache::file_name(const std::string& key) const {
    // The first number is that of the pack's format and of the way blocks are cut. The key stands
    // in front: the store sweeps its files by the digest that their names begin with.
    return fmt::format("{}-1-{}-{}-{}.pack", key, static_cast<int>(options_.codec), options_.level,
                       options_.block_size_bytes);
}

Pack PackCache::get_or_pack(const LayerInput& layer, size_t number, Progress* progress) {
    const std::string subject = fmt::format("layer {}", number + 1);
    if (layer.key.empty() || options_.pack_directory.empty())
        return pack_layer(*layer.open(), unnamed_file(), subject, options_, progress);
    sys::make_directories(options_.pack_directory, 0700);
    const std::string path = join_path(options_.pack_directory, file_name(layer.key));
    if (auto fd = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY)) {
        if (auto pack = load_pack(std::move(*fd), path)) return std::move(*pack);
    }
    Unfinished temporary(path);
    UniqueFd fd(::mkostemp(temporary.path.data(), O_CLOEXEC));
    if (!fd) {
        const SysError error(
            fmt::format("cannot write in {}", slipway::quoted(options_.pack_directory)),
            "mkostemp");
        temporary.path.clear();
        throw error;
    }
    Pack pack = pack_layer(*layer.open(), std::move(fd), subject, options_, progress);
    save_journal(pack);
    sys::fsync(pack.file.get(), path);
    sys::renameat(AT_FDCWD, temporary.path, AT_FDCWD, path);
    temporary.path.clear();
    return pack;
}

}  // namespace slipway::image::squashfs
