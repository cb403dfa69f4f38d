// Images in registries: pulling them into the store, looking at them, pushing them.
#pragma once

#include <optional>
#include <string>

#include "slipway/image/store.hpp"

namespace slipway::image {

/// How a user wants registries to be addressed; empty and absent: as the configuration says.
struct RegistryAccess {
    std::string auth_file;           ///< --authfile
    std::optional<bool> verify_tls;  ///< --tls-verify
};

struct PullOptions {
    std::string name;  ///< in the store; "": HOST/REPOSITORY:TAG, of a digest REPOSITORY:sha256-HEX
    RegistryAccess access;
    /// If the registry cannot be reached, take what was pulled under this name before, with a
    /// warning.
    bool stored_will_do = false;
};

struct PullResult {
    OciImage image;
    std::string name;
    uint64_t downloaded_bytes = 0;  ///< of layers and documents; 0: everything was there
};

/// Bring [docker://][HOST[:PORT]/]REPO[:TAG][@DIGEST] into the store and name it. What the store
/// has is not fetched; a digest that it has under its name asks for nothing at all. Every document
/// and layer is checked against its digest before it counts. What a broken download left is
/// continued by the next. Throws: Error(usage), Error(not_found) with near tags, Error(io) with the
/// remedy, Error(invalid_image) for what is not what its digest says.
PullResult pull_image(const std::string& reference, Store& store, const PullOptions& options = {});

struct PushResult {
    Digest manifest_digest;
    uint64_t uploaded_bytes = 0;  ///< of layers and config; what the registry had is not sent
};

/// Put an image of layers into a registry under a tag. A layer that the registry has is not sent;
/// one that it has in another repository, as far as this store knows, is mounted from there. Large
/// layers go in chunks, and a broken upload is continued where it broke. Throws: as pull_image.
PushResult push_image(const OciImage& image, const std::string& reference, const Store& store,
                      const RegistryAccess& access = {});

/// The name under which the store keeps what a reference names.
std::string stored_name_of(const std::string& reference);

/// Read an image's manifest and config without its layers; its blobs cannot be opened.
OciImage look_at_image(const std::string& reference, const RegistryAccess& access = {});

}  // namespace slipway::image
