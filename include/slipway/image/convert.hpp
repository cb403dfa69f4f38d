// Conversion between image formats, and the form of an image that can be run.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>

#include "slipway/image/reference.hpp"
#include "slipway/image/signature.hpp"
#include "slipway/image/squashfs.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Open any reference that has layers: oci:, oci-archive:, docker-archive:, a tar file (one layer),
/// a stored name, docker:// (pulled into the store, with the signatures wanted); for ref.platform.
/// Throws: Error(unsupported) for the others.
OciImage open_layered(const ImageRef& ref, const Store& store,
                      SignaturesWanted signatures = SignaturesWanted::tag);

struct ConvertReport {
    std::string text;  ///< one line for the user: what was written, how large
    std::vector<std::string> warnings;
};
/// Convert SRC to DST; formats are guessed from names and contents. DST: FILE.sqfs, FILE.sif,
/// FILE.tar[.gz|.zst], oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:NAME], a
/// directory (must not exist or be empty), or `store:NAME`. Says once what the destination cannot
/// hold. `platform` as ImageRef::platform. With `as_it_is` an artifact that is a file of the
/// destination's format is copied. Throws: Error(already_exists), Error(unsupported) with what is
/// possible.
ConvertReport convert(const std::string& source, const std::string& destination, const Store& store,
                      const SquashfsOptions& options, const std::string& platform = {},
                      bool as_it_is = false);

/// Write an image's layers as a squashfs file; each layer's compressed blocks are kept in the
/// store's packs/, so that a layer is compressed once.
SquashfsReport write_squashfs(const OciImage& image, const std::string& output, const Store& store,
                              SquashfsOptions options = {});

/// A squashfs that can be read: a file, or the root partition of a SIF.
struct SquashfsFile {
    std::shared_ptr<const SquashfsImage> image;
    uint64_t offset_bytes = 0;          ///< where in the file the squashfs begins
    std::optional<ImageConfig> config;  ///< of a SIF without one of ours: from /.singularity.d
    std::string architecture;           ///< as a SIF says it, in OCI's words; else ""
    std::vector<std::string> warnings;  ///< what the file holds and will not be seen
    Digest seal;                        ///< that was verified
};
/// Open a reference of kind squashfs or SIF and check it. Throws: Error(invalid_image),
/// Error(unsupported). With `trusted` keys the file must be signed by one of them.
SquashfsFile open_squashfs_file(const ImageRef& ref, const TrustedKeys* trusted = nullptr,
                                ConfigScope scope = ConfigScope::all);

/// What the runtime mounts.
struct RunnableImage {
    enum class Kind { host, directory, squashfs } kind = Kind::directory;
    /// What it was made of; of a tar file what its members say, never RefKind::archive.
    RefKind format = RefKind::directory;
    std::string path;           ///< absolute
    uint64_t offset_bytes = 0;  ///< of a squashfs inside a SIF file
    Digest seal;                ///< that was verified: all reading is checked against it
    /// A squashfs file that was opened to read its configuration; may be null.
    std::shared_ptr<const SquashfsImage> squashfs;
    ImageConfig config;    ///< empty when the image has none
    std::string identity;  ///< device and inode; of a file also size and mtime: changes with it
    /// Of a file that the store keeps: while it is open, nobody deletes the file.
    std::shared_ptr<const UniqueFd> hold;
};
/// The identity of an open image, to compare with RunnableImage::identity.
std::string identity_of(const struct stat& status);

/// Find or make the runnable form: a stored name or layout becomes a squashfs in the store, once,
/// under a lock. The store (`store_directory`, as Store::open takes it) is opened for those only:
/// the host, a directory and a squashfs file need none. With `trusted` keys the image must be
/// signed by one of them: a squashfs file, or an image of layers with a manifest. Of the latter a
/// squashfs with a seal is made of layers that have their digests.
RunnableImage make_runnable(const ImageRef& ref, const std::string& store_directory = {},
                            const TrustedKeys* trusted = nullptr);

}  // namespace slipway::image
