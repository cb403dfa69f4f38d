// The store's unpacked layers, which RUN mounts and COPY --from reads.
// Must not: trust what a crash of the machine may have left half written.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>

#include <chrono>
#include <optional>

#include "../oci/model.hpp"
#include "../temp_file.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/store.hpp"
#include "use.hpp"

namespace slipway::image {
namespace {

// Another process may be unpacking the same layer; ten minutes is a large one on a slow disk.
constexpr auto kUnpackTimeout = std::chrono::seconds(600);

std::string this_boot() { return read_file("/proc/sys/kernel/random/boot_id"); }

/// Writing a layer's files through to the disk costs more than making them, so it is not done at
/// first. The note beside a layer names the boot that made it: in a later one, its files may be
/// empty after a crash, and it is made again from its blob, which is on the disk.
std::string note_of(const std::string& layer) { return layer + std::string(kBootNote); }

bool is_there(const std::string& layer) { return sys::stat_if_exists(AT_FDCWD, layer).has_value(); }

bool is_usable(const std::string& layer) {
    if (!is_there(layer)) return false;
    const auto note = sys::openat_if_exists(AT_FDCWD, note_of(layer), O_RDONLY);
    return !note || read_all(note->get(), note_of(layer)) == this_boot();
}

/// Why a directory's file system can hold no layers of an overlay; std::nullopt if it can.
std::optional<std::string> why_no_layers(const std::string& directory) {
    try {
        const TempDir place(directory, temporary_name() + "-");
        const UniqueFd dir = sys::open(place.path(), O_RDONLY | O_DIRECTORY);
        // As fsetxattr(2) by path: the wrapper that there is follows no links, and needs none.
        sys::setxattr_nofollow(fmt::format("/proc/self/fd/{}/.", dir.get()), "user.overlay.opaque",
                               "y");
        sys::mknodat(dir.get(), "whiteout", S_IFCHR, 0);
        // Overlayfs wants it of a file system that others change, too.
        sys::openat(dir.get(), "moved", O_WRONLY | O_CREAT, 0600);
        if (::renameat2(dir.get(), "moved", dir.get(), "to", RENAME_WHITEOUT) != 0)
            throw SysError("files cannot be replaced by whiteouts", "renameat2");
        return std::nullopt;
    } catch (const Error& error) {
        return error.message();
    }
}

void write_note(const std::string& layer) {
    const std::string boot = this_boot();
    const UniqueFd note = sys::open(note_of(layer), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    sys::write_all(note.get(), boot.data(), boot.size(), note_of(layer));
}

}  // namespace

const std::string& Store::layers_directory() const {
    const std::string temporary = subdirectory("tmp");
    begin_use();
    std::lock_guard guard(use_->mutex);
    if (use_->layers) return *use_->layers;
    use_->layers = directory_;
    const auto why = why_no_layers(temporary);
    if (!why) return *use_->layers;
    const std::string local = slipway::temporary_directory();
    std::optional<std::string> not_there;
    try {
        use_->elsewhere.emplace(join_path(local, "layers"), temporary);
        not_there = why_no_layers(use_->elsewhere->path());
    } catch (const Error& error) {
        not_there = error.message();
    }
    if (not_there) {
        // What needs an overlay finds out, and says so.
        log::verbose("layers cannot be unpacked in {} either: {}", local, *not_there);
        use_->elsewhere.reset();
        return *use_->layers;
    }
    use_->layers = use_->elsewhere->path();
    log::info("the store's file system can hold no layers of an overlay: they are unpacked in {}",
              local);
    log::verbose("{}", *why);
    return *use_->layers;
}

TempDir Store::overlay_directory() const {
    const std::string place = join_path(layers_directory(), "tmp");
    sys::make_directories(place, 0700);
    return TempDir(place, temporary_name() + "-");
}

std::string Store::unpacked_layer(const Layer& layer) const {
    const std::string& directory = layers_directory();
    std::string path = join_path(directory, "unpacked/" + layer.diff_id.hex());
    if (is_usable(path)) return path;
    FileLock lock(join_path(subdirectory("locks"), "unpack-" + layer.diff_id.hex()),
                  FileLock::Mode::exclusive, kUnpackTimeout);
    if (is_usable(path)) return path;
    const bool again = is_there(path);
    if (again) remove_tree(path);
    for (const char* name : {"unpacked", "tmp"})
        sys::make_directories(join_path(directory, name), 0700);
    std::string place = join_path(directory, "tmp/" + temporary_name());
    sys::mkdirat(AT_FDCWD, place, 0755);
    try {
        OciImage image;
        image.blobs = blobs_;
        image.layers = {layer};
        auto source = open_image_layer(image, 0);
        UnpackReport report = unpack_layer(*source, place, UnpackStyle::overlay);
        if (report.devices_not_made > 0) {
            log::verbose("{} device nodes of layer {} were left out", report.devices_not_made,
                         layer.diff_id.hex().substr(0, 12));
        }
        if (again) {  // it has outlived a boot, so it is worth the disk's time
            sys::syncfs(sys::open(place, O_RDONLY | O_DIRECTORY).get(), place);
        } else {
            write_note(path);
        }
        sys::renameat(AT_FDCWD, place, AT_FDCWD, path);
        if (again) sys::unlinkat(AT_FDCWD, note_of(path));
    } catch (...) {
        remove_tree(place);
        throw;
    }
    return path;
}

void Store::adopt_unpacked(const Layer& layer, const std::string& directory) const {
    const std::string unpacked = join_path(layers_directory(), "unpacked");
    sys::make_directories(unpacked, 0700);
    std::string path = join_path(unpacked, layer.diff_id.hex());
    FileLock lock(join_path(subdirectory("locks"), "unpack-" + layer.diff_id.hex()),
                  FileLock::Mode::exclusive, kUnpackTimeout);
    if (is_there(path)) {
        remove_tree(directory);
    } else {
        write_note(path);
        sys::renameat(AT_FDCWD, directory, AT_FDCWD, path);
    }
}

}  // namespace slipway::image
