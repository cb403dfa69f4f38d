// Artifacts' manifests, and their names in the store. Private to the image room.
#pragma once

#include "../oci/model.hpp"
#include "slipway/image/artifact.hpp"

namespace slipway::image {

inline constexpr const char* kTitleAnnotation = "org.opencontainers.image.title";
inline constexpr const char* kSquashfsType = "application/vnd.squashfs";
inline constexpr const char* kSifLayerType = "application/vnd.sylabs.sif.layer.v1.sif";

/// Understand the manifest of an artifact. Throws: Error(invalid_image) naming `subject`.
Artifact read_artifact(std::shared_ptr<const BlobSource> blobs, const Manifest& manifest,
                       const std::string& subject);
/// An image or an artifact, whichever the manifest is of.
Content read_content(std::shared_ptr<const BlobSource> blobs, const Descriptor& manifest,
                     const std::string& subject, const std::string& platform = {});
/// What the store has under a name.
std::optional<Content> find_content(const Store& store, const std::string& name);
/// The files as what is fetched and mounted like layers.
std::vector<Layer> blobs_of(const Artifact& artifact);

/// Name an artifact whose manifest, config and files are blobs of the store.
Artifact name_artifact(Store& store, const std::string& name, const Artifact& artifact);

/// Whether save_artifact() may write an artifact there, as far as can be seen before its files are
/// fetched: their titles, what is in the way, missing and read-only directories.
/// Throws: Error(unsafe_path), Error(invalid_image), Error(already_exists), Error(not_found),
/// Error(permission).
void check_output(const Artifact& artifact, const std::string& output);

/// The error that an artifact is no image, with what it is. `reference` as typed.
Error no_image(const Artifact& artifact, const std::string& reference);

}  // namespace slipway::image
