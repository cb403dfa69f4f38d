// The store's unpacked layers, which RUN mounts and COPY --from reads.
// Must not: trust what a crash of the machine may have left half written.
#include <chrono>

#include "../oci/model.hpp"
#include "../temp_file.hpp"
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

void write_note(const std::string& layer) {
    const std::string boot = this_boot();
    const UniqueFd note = sys::open(note_of(layer), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    sys::write_all(note.get(), boot.data(), boot.size(), note_of(layer));
}

}  // namespace

std::string Store::unpacked_layer(const Layer& layer) const {
    std::string path = join_path(directory_, "unpacked/" + layer.diff_id.hex());
    begin_use();
    if (is_usable(path)) return path;
    FileLock lock(join_path(subdirectory("locks"), "unpack-" + layer.diff_id.hex()),
                  FileLock::Mode::exclusive, kUnpackTimeout);
    if (is_usable(path)) return path;
    const bool again = is_there(path);
    if (again) remove_tree(path);
    subdirectory("unpacked");
    std::string place = join_path(subdirectory("tmp"), temporary_name());
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
    begin_use();
    std::string path = join_path(subdirectory("unpacked"), layer.diff_id.hex());
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
