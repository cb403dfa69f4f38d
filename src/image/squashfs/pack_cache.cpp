// The cache of packs: a file per layer, codec, level and block size.
// Must not: let a pack be seen under its name before it is whole.
#include "pack_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "../store/size.hpp"
#include "../temp_file.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {
namespace {

bool is_writable(const std::string& directory) {
    if (::access(directory.c_str(), W_OK) == 0) return true;
    if (errno != ENOENT) return false;
    sys::make_directories(directory, 0700);
    return true;
}

}  // namespace

UniqueFd PackCache::unnamed_file() const {
    const std::string directory(parent_path(absolute_path(output_)));
    return NewFile(join_path(directory, ".slipway-pack")).into_unnamed();
}

bool PackCache::keeps(const LayerInput& layer) const {
    return !layer.key.empty() && !options_.pack_directory.empty() && options_.pack_limit_bytes > 0;
}

std::string PackCache::path_of(const LayerInput& layer) const {
    // The first number is that of the pack's format and of the way blocks are cut. The key stands
    // in front: the store sweeps its files by the digest that their names begin with.
    return join_path(options_.pack_directory,
                     fmt::format("{}-3-{}-{}-{}.pack", layer.key, static_cast<int>(options_.codec),
                                 options_.level, options_.block_size_bytes));
}

std::optional<Pack> PackCache::find(const LayerInput& layer) const {
    if (!keeps(layer)) return std::nullopt;
    const std::string path = path_of(layer);
    auto fd = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY);
    if (!fd) return std::nullopt;
    ::futimens(fd->get(), nullptr);  // not in a store that is read-only
    return load_pack(std::move(*fd), path);
}

Pack PackCache::make(const LayerInput& layer, size_t number, Progress* progress) {
    const std::string subject = fmt::format("layer {}", number + 1);
    const auto pack = [&](UniqueFd file) {
        Pack made = pack_layer(*layer.open(progress), std::move(file), subject, options_,
                               layer.size_bytes == 0 ? progress : nullptr);
        packed_bytes_ += static_cast<uint64_t>(sys::fstat(made.file.get(), subject).st_size);
        return made;
    };
    // A store that others filled may be read-only: then nothing is kept.
    if (!keeps(layer) || !is_writable(options_.pack_directory)) return pack(unnamed_file());
    const std::string path = path_of(layer);
    NewFile file(path);
    Pack made = pack(UniqueFd(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0)));
    // Not synced: what a crash of the machine spoils is found when the pack is used
    // (pack_check.cpp).
    save_journal(made);
    file.commit(0600);
    return made;
}

void PackCache::trim() const {
    if (options_.pack_directory.empty()) return;
    struct Kept {
        timespec used;
        uint64_t size_bytes;
        std::string name;
    };
    std::vector<Kept> kept;
    uint64_t sum = 0;
    const auto dir =
        sys::openat_if_exists(AT_FDCWD, options_.pack_directory, O_RDONLY | O_DIRECTORY);
    if (!dir) return;
    for (std::string& name : sys::list_directory(dir->get(), options_.pack_directory)) {
        if (const size_t end = name.find(".pack."); end != std::string::npos)  // a killed process's
            sweep_beside(join_path(options_.pack_directory, name.substr(0, end + 5)));
        const auto status = sys::stat_if_exists(dir->get(), name, AT_SYMLINK_NOFOLLOW);
        if (!status || !name.ends_with(".pack")) continue;
        const uint64_t size = static_cast<uint64_t>(status->st_blocks) * 512;
        sum += size;
        kept.push_back({status->st_mtim, size, std::move(name)});
    }
    std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) {
        return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) <
               std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
    });
    for (const Kept& oldest : kept) {
        if (sum <= options_.pack_limit_bytes) break;
        ::unlinkat(dir->get(), oldest.name.c_str(), 0);  // another may have been faster
        sum -= oldest.size_bytes;
    }
}

}  // namespace slipway::image::squashfs

namespace slipway::image {

uint64_t pack_limit_from_environment() {
    const char* variable = std::getenv("SLIPWAY_PACK_CACHE");
    const std::string text = variable ? variable : "";
    if (text.empty()) return SquashfsOptions{}.pack_limit_bytes;
    return parse_size(text, "SLIPWAY_PACK_CACHE");
}

}  // namespace slipway::image
