// OCI image layouts and docker archives: reading an image's parts, writing a layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "slipway/image/config.hpp"
#include "slipway/image/layer.hpp"
#include "slipway/image/reference.hpp"

namespace slipway::image {

/// Where an image's blobs can be opened, whatever holds them.
class BlobSource {
 public:
    virtual ~BlobSource() = default;
    /// Open a blob for reading at offset 0. Throws: Error(not_found).
    virtual UniqueFd open_blob(const Digest& digest) const = 0;
};

/// One image of one platform: config, layers base first, and where the blobs are.
struct OciImage {
    ImageConfig config;
    Digest config_digest;
    Digest manifest_digest;  ///< empty for a docker archive
    std::vector<Layer> layers;
    std::shared_ptr<const BlobSource> blobs;
};

/// Open `oci:DIR[:TAG]` or `docker-archive:FILE[:REF]`; checks digests of manifest and config and
/// that layers and diff_ids agree in number. From an index the platform is picked, "" this
/// machine's. Throws: Error(invalid_image), Error(not_found).
OciImage open_oci_layout(const std::string& directory, const std::string& tag,
                         const std::string& platform = {});
OciImage open_docker_archive(const std::string& file, const std::string& reference);
/// Open either of the two, or a stored image's layout, by reference kind.

/// Write an image as an OCI layout directory (made if absent; other tags in it stay).
void write_oci_layout(const OciImage& image, const std::string& directory, const std::string& tag);
/// Check that every layer's blob has its digest. Throws: Error(invalid_image).
void verify_blobs(const OciImage& image);

}  // namespace slipway::image
