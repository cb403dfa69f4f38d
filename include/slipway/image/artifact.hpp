// Artifacts: files that travel through registries as they are, datasets and squashfs images among
// them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/image/oci.hpp"
#include "slipway/image/signature.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// What Slipway's own are called. What the bytes of the file are, its layer's media type says:
/// application/vnd.squashfs, as in the database of freedesktop.org.
inline constexpr const char* kDatasetArtifactType = "application/vnd.slipway.dataset.v1";
inline constexpr const char* kImageArtifactType = "application/vnd.slipway.image.v1";

struct ArtifactFile {
    std::string title;  ///< its file name, as the manifest has it: not to be trusted; "" if none
    std::string media_type;
    Digest digest;
    uint64_t size_bytes = 0;
};

/// What an artifact can be used as, by what it says of itself.
enum class ArtifactKind {
    dataset,   ///< one squashfs file, for --data
    squashfs,  ///< one squashfs file that can be run
    sif,       ///< one SIF file, as Apptainer pushes it
    other
};
std::string_view to_string(ArtifactKind kind);

struct Artifact {
    ArtifactKind kind = ArtifactKind::other;
    std::string type;  ///< its artifactType, else its config's media type
    Digest manifest_digest;
    std::string manifest_type;  ///< media type of the manifest
    Digest config_digest;
    std::map<std::string, std::string> annotations;
    std::vector<ArtifactFile> files;
    std::shared_ptr<const BlobSource> blobs;
};

/// What a reference can lead to: an image of layers, or an artifact.
struct Content {
    std::optional<OciImage> image;
    std::optional<Artifact> artifact;
};

/// The artifact that the store has under a name; std::nullopt for an image or nothing.
std::optional<Artifact> find_artifact(const Store& store, const std::string& name);

/// Open any reference that has layers (as open_layered does) or is an artifact with one file that
/// can be used: stored, or docker:// (pulled into the store). Throws: Error(unsupported) for other
/// artifacts, before their files are fetched, with what they are and what to do.
Content open_content(const ImageRef& ref, const Store& store,
                     SignaturesWanted signatures = SignaturesWanted::tag);

/// An artifact's one file, in the store, as a reference of kind squashfs or SIF. Throws:
/// Error(unsupported) when it is neither.
ImageRef file_of(const Artifact& artifact, const ImageRef& ref, const Store& store);

/// A data pack in the store.
struct StoredPack {
    std::string path;
    std::shared_ptr<const UniqueFd> hold;  ///< while it is open, nobody deletes the file
};
/// The squashfs file of a data pack's reference: a stored name or docker://REF. Throws:
/// Error(unsupported) for what is no single squashfs file.
StoredPack find_pack(const std::string& reference, const std::string& store_directory);

/// Whether a squashfs file is a data pack.
bool is_data_pack(const std::string& file);

/// A data pack, squashfs or SIF file as an artifact that can be pushed: its manifest has the file's
/// own description as annotations. Same file, same name: same manifest.
Artifact make_artifact(const ImageRef& file);

/// Write an artifact's files: its only one to the file `output`; or, where `output` is a directory
/// or ends with "/" or there are several, each by its title below it. Every file appears whole,
/// checked against its digest, over an older file but no directory; none outside of the directory.
/// Returns the paths. Throws: Error(unsafe_path) for titles that lead elsewhere, before anything is
/// written.
std::vector<std::string> save_artifact(const Artifact& artifact, const std::string& output);

}  // namespace slipway::image
