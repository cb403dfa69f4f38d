// The user's image store: an OCI layout with names, unpacked layers for builds, squashfs files made
// from images.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/file.hpp"
#include "slipway/image/oci.hpp"

namespace slipway::image {

struct StoredImage {
    std::string name;  ///< "digits:latest"
    Digest manifest_digest;
    Digest config_digest;
    uint64_t size_bytes = 0;  ///< of the layer blobs
    std::string created;
    std::string architecture;
    size_t layers = 0;
    std::string squashfs;  ///< path of the squashfs made of it; "" if there is none
    std::string kind;      ///< "image", or an artifact's: to_string(ArtifactKind)
    std::string
        artifact_type;  ///< of an artifact; its layers are its files, its config says nothing
};

struct GcOptions {
    bool build_cache = true;  ///< drop the build cache's entries, and what only they need
    /// Delete, least recently used first, what can be made again, until the store is no larger.
    std::optional<uint64_t> keep_bytes;
    /// With keep_bytes: what was used since then stays (seconds since 1970).
    std::optional<int64_t> spare_since;
    bool dry_run = false;  ///< say what would be deleted
};
struct GcReport {
    struct Item {
        std::string kind;  ///< "blob", "unpacked", "squashfs", "pack", "cache", "partial"
        std::string name;  ///< relative to the store
        uint64_t size_bytes = 0;
    };
    std::vector<Item> deleted;
    uint64_t freed_bytes = 0;
    uint64_t kept_bytes = 0;  ///< how large the store is afterwards
};

/// Content-addressed, for one user; safe for several processes: blobs appear by rename, the index
/// changes under a lock. Layout: oci/ (an OCI layout: index.json, blobs/), unpacked/<diff id>/
/// (overlay lowers), packs/, squashfs/<config digest>.sqfs, partial/ (layers on
/// their way from a registry), cache/ (build steps: JSON files, every
/// digest in which keeps its blob), locks/, tmp/. A Store that added something holds a shared lock
/// until it is destroyed; deletion needs that lock alone. When it lets go, and SLIPWAY_STORE_LIMIT
/// is set, what can be made again is deleted until the store is no larger.
class Store {
 public:
    /// Open, made if absent: `directory`, else $SLIPWAY_STORE, else $XDG_DATA_HOME/slipway, else
    /// ~/.local/share/slipway.
    static Store open(const std::string& directory = {});
    /// Where open() looks when neither an argument nor SLIPWAY_STORE says otherwise: a place of the
    /// user's own.
    static std::string personal_directory();
    const std::string& directory() const { return directory_; }
    /// A sub-directory, made if absent: "tmp", "cache", "packs".
    std::string subdirectory(const std::string& name) const;
    /// A directory in tmp/ for as long as the object lives. What a killed process left is swept
    /// when the store is opened next.
    TempDir temporary_directory() const;
    /// The same on the file system of the unpacked layers, for what is to be an overlay with them.
    TempDir overlay_directory() const;

    std::optional<OciImage> find(const std::string& name) const;
    /// Throws: Error(not_found) with the names that come near.
    OciImage get(const std::string& name) const;
    std::vector<StoredImage> list() const;  ///< sorted by name
    /// Take the name away and delete what no other name needs. Throws: Error(not_found).
    void remove(const std::string& name);
    /// Delete what no image needs. Throws: Error(busy) while another process builds or adds.
    GcReport collect_garbage(const GcOptions& options);
    /// Name an image whose layers are already blobs of this store; writes config and manifest.
    /// Returns it as stored.
    OciImage tag(const std::string& name, ImageConfig config, const std::vector<Layer>& layers);
    /// Copy an image's blobs from elsewhere into the store and name it.
    OciImage import(const std::string& name, const OciImage& image);

    /// Write a blob: `write` fills an open temporary file and returns its layer; the blob appears
    /// whole or not at all.
    Layer add_layer(const std::function<Layer(int fd)>& write);
    /// A layer's blob, if it is here.
    bool has_blob(const Digest& digest) const;
    UniqueFd open_blob(const Digest& digest) const;

    /// Write a small blob, a manifest or config.
    Digest add_document(const std::string& data);
    /// Where a blob may be gathered over several processes' lives, each holding the lock of
    /// blob_lock() meanwhile; gc empties the place.
    std::string partial_blob(const Digest& digest) const;
    FileLock blob_lock(const Digest& digest) const;
    /// Make a gathered file, whose digest the caller has checked, a blob.
    void adopt_blob(const Digest& digest, int fd, const std::string& path);
    /// Name an image whose manifest, config and layers are blobs of this store.
    OciImage name_image(const std::string& name, const Digest& manifest,
                        const std::string& media_type);

    /// The layer unpacked in overlay style, made on first use, under a lock; the path stays valid
    /// while the image is named or referenced by the build cache. Where the store's file system can
    /// hold no layers of an overlay (NFS, or any without attributes), layers are unpacked in
    /// $TMPDIR, and are gone with this object's last copy.
    std::string unpacked_layer(const Layer& layer) const;
    /// Make a directory that already holds the layer's contents (a build step's upper) that layer's
    /// unpacked form.
    void adopt_unpacked(const Layer& layer, const std::string& directory) const;

    /// Say that this process adds to the store: until it lets go, nobody deletes what no
    /// image names yet. Until the last copy of this object goes. Throws: Error(read-only store).
    void begin_use() const;

 private:
    explicit Store(std::string directory);
    /// Delete blobs, unpacked layers and squashfs files that neither an image nor the build cache
    /// names; std::nullopt, and nothing done, if another process is adding to the store.
    std::optional<GcReport> collect(const GcOptions& options);
    /// Where unpacked/ and tmp/ of layers are.
    const std::string& layers_directory() const;

    struct Use;
    std::string directory_;
    std::shared_ptr<const BlobSource> blobs_;
    std::shared_ptr<Use> use_;
};

}  // namespace slipway::image
