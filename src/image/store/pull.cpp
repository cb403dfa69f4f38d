// What a registry's client does in the store: gathers blobs, and names the image at the end.
// Must not: believe that a blob is whole; its caller has checked the digest.
#include <fmt/core.h>

#include "../oci/model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/store.hpp"
#include "use.hpp"

namespace slipway::image {
namespace {

// Somebody else may be pulling the same layer over a slow line.
constexpr auto kBlobTimeout = std::chrono::minutes(60);

}  // namespace

Digest Store::add_document(const std::string& data) {
    begin_use();
    return LayoutWriter(join_path(directory_, "oci"), subdirectory("tmp")).put(data, "").digest;
}

std::string Store::partial_blob(const Digest& digest) const {
    begin_use();
    return join_path(subdirectory("partial"), digest.hex());
}

FileLock Store::blob_lock(const Digest& digest) const {
    const std::string path = join_path(subdirectory("locks"), "blob-" + digest.hex());
    try {
        return {path, FileLock::Mode::exclusive, std::chrono::milliseconds(0)};
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::busy) throw;
    }
    log::info("waiting for another slipway that downloads {}", digest.hex().substr(0, 12));
    return {path, FileLock::Mode::exclusive, kBlobTimeout};
}

void Store::adopt_blob(const Digest& digest, int fd, const std::string& path) {
    sys::fchmod(fd, 0644, path);
    sys::fsync(fd, path);
    sys::renameat(AT_FDCWD, path, AT_FDCWD, blob_path(join_path(directory_, "oci"), digest));
}

OciImage Store::name_image(const std::string& name, const Digest& manifest,
                           const std::string& media_type) {
    const std::string full = normalize_stored_name(name);
    begin_use();
    LayoutWriter writer(join_path(directory_, "oci"), subdirectory("tmp"));
    Descriptor descriptor;
    descriptor.media_type = media_type;
    descriptor.digest = manifest;
    descriptor.size_bytes =
        static_cast<uint64_t>(sys::fstat(open_blob(manifest).get(), manifest.text()).st_size);
    {
        const FileLock lock = lock_index(*this);
        writer.set_tag(full, descriptor);
    }
    return read_image(blobs_, descriptor, slipway::quoted(full));
}

}  // namespace slipway::image
