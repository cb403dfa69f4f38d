// Descriptors, indexes and manifests of OCI images. Private to the image room.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platform.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/oci.hpp"

namespace slipway::image {

/// A document that somebody else wrote, or a discarded value if it is no JSON.
Json parse_foreign(std::string_view text);

inline constexpr const char* kIndexType = "application/vnd.oci.image.index.v1+json";
inline constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kEmptyType = "application/vnd.oci.empty.v1+json";
inline constexpr const char* kConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr const char* kRefNameAnnotation = "org.opencontainers.image.ref.name";

/// Source: opencontainers/image-spec descriptor.md.
struct Descriptor {
    std::string media_type;
    Digest digest;
    uint64_t size_bytes = 0;
    std::string platform;       ///< "linux/arm64"; "" if it says none
    std::string artifact_type;  ///< "": an image, or not said
    std::string tag;            ///< its ref.name annotation
    Json json;                  ///< as read
};
/// Throws: Error(invalid_image) naming `subject`.
Descriptor parse_descriptor(const Json& json, const std::string& subject);
Json to_json(const Descriptor& descriptor);
/// The descriptors of an index or of an index.json.
std::vector<Descriptor> parse_index(const Json& index, const std::string& subject);

bool is_index_type(const std::string& media_type);
/// By its type, or by what is in it where no type is told.
bool is_index(const Descriptor& descriptor, const Json& document);

/// Whether an index's entry is no image: BuildKit's attestations, cosign's tags, artifacts.
bool is_artifact(const Descriptor& descriptor);

/// Whether a config is of a platform's system and architecture, and of a variant that serves it;
/// one that says nothing is. Configurations often say no variant where there is one: then none is
/// compared.
bool is_for(const ImageConfig& config, const std::string& platform);
/// The same, where an earlier variant does not do instead.
bool is_exactly_for(const ImageConfig& config, const std::string& platform);
/// Throws: Error(unsupported) when an image is of another platform.
void require_platform(const ImageConfig& config, const std::string& platform,
                      const std::string& subject);

/// Indexes may lie within indexes, but no deeper.
inline constexpr int kMaxIndexDepth = 8;

/// Choose the image that `tag` names; "" means the only one. Attestations and other artifacts are
/// left out. `platform` as of platform_name(); "": this machine's, or the only one.
/// Throws: Error(not_found), Error(usage) listing the tags, Error(unsupported) listing platforms.
Descriptor choose_image(const std::vector<Descriptor>& manifests, const std::string& tag,
                        const std::string& platform, const std::string& subject);
/// The same in an index that is itself an image of several platforms: even its only image is taken
/// for no platform but its own.
Descriptor choose_in_index(std::vector<Descriptor> manifests, const std::string& platform,
                           const std::string& subject);

/// Read a small blob whole and check its size and digest.
/// Throws: Error(not_found), Error(invalid_image).
std::string read_blob(const BlobSource& blobs, const Descriptor& descriptor,
                      const std::string& subject);

struct Manifest {
    Descriptor descriptor;
    Json json;  ///< an object
};
/// Follow nested indexes to one manifest.
Manifest read_manifest(const BlobSource& blobs, Descriptor descriptor, const std::string& subject,
                       const std::string& platform = {});
/// What a manifest says it is, where it is no image: its artifactType, else its config's type; of
/// an image "".
std::string artifact_type_of(const Json& manifest, const std::string& subject);

/// Follow nested indexes to a manifest and read the image.
OciImage read_image(std::shared_ptr<const BlobSource> blobs, Descriptor descriptor,
                    const std::string& subject, const std::string& platform = {});

/// Read one layer of an image; its blob's digest and its diff id are checked when its end is read.
/// `progress`, if given, counts what is read of the blob.
std::unique_ptr<EntrySource> open_image_layer(const OciImage& image, size_t index,
                                              Progress* progress = nullptr);

/// The manifest document of an image made by us.
Json make_manifest(const Descriptor& config, const std::vector<Layer>& layers);

/// Blobs that an index.json names: a layout's, an archive's.
class IndexedBlobs : public BlobSource {
 public:
    virtual Json index() const = 0;
};

/// The blobs of a layout directory; an IndexedBlobs.
std::shared_ptr<const BlobSource> open_layout_blobs(const std::string& directory);
/// The layout's index.json, checked; an absent one is empty. Throws: Error(invalid_image).
Json read_layout_index(const std::string& directory);
std::string blob_path(const std::string& layout, const Digest& digest);

/// Write into a layout. Blobs are made in `temporary` (same file system) and renamed.
class LayoutWriter {
 public:
    /// Makes the layout if it is absent.
    LayoutWriter(std::string directory, std::string temporary);
    /// Throws: Error(no_space)...; the blob appears whole or not at all.
    Descriptor put(const std::string& data, const std::string& media_type);
    /// Copy a blob, checking its digest on the way; nothing is done if it is there already.
    void copy(const BlobSource& from, const Digest& digest, const std::string& subject);
    /// Copy or make an image's layers, config and manifest; returns the manifest's descriptor.
    Descriptor put_image(const OciImage& image);
    /// Point `tag` at a manifest in index.json. The caller holds whatever lock guards the index.
    void set_tag(const std::string& tag, Descriptor manifest);
    /// Take a tag away; false if it is not there.
    bool remove_tag(const std::string& tag);
    void write_index(const Json& index);

 private:
    void write_document(const std::string& path, const std::string& text);
    std::string directory_;
    std::string temporary_;
};

}  // namespace slipway::image
