// Images in registries: pulling them into the store, looking at them, pushing them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipway/image/artifact.hpp"
#include "slipway/image/reference.hpp"
#include "slipway/image/signature.hpp"
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
    std::string platform;  ///< as ImageRef::platform
    /// Called with what the reference leads to before its layers or files are fetched; may throw.
    std::function<void(const Content&)> check;
    /// What is kept beside the image; asked for before the image is named.
    SignaturesWanted signatures = SignaturesWanted::tag;
};

struct PullResult {
    OciImage image;  ///< empty where it is an artifact
    std::string name;
    uint64_t downloaded_bytes = 0;  ///< of layers and documents; 0: everything was there
    std::optional<Artifact> artifact = std::nullopt;
};

/// Bring [docker://][HOST[:PORT]/]REPO[:TAG][@DIGEST] into the store and name it. What the store
/// has is not fetched; a digest that it has under its name asks for nothing at all. Every document
/// and layer is checked against its digest before it counts. What a broken download left is
/// continued by the next. Throws: Error(usage), Error(not_found) with near tags, Error(io) with the
/// remedy, Error(invalid_image) for what is not what its digest says, Error(unsupported) where the
/// platform is not there, with those that are.
PullResult pull_image(const std::string& reference, Store& store, const PullOptions& options = {});

struct SaveResult {
    std::vector<std::string> files;
    Digest manifest_digest;
    uint64_t downloaded_bytes = 0;
};
/// Fetch an artifact and write its files as save_artifact() does. The store keeps it under
/// `options.name`; without a name nothing of it stays there that nothing else needs. Throws: as
/// both; before anything is fetched Error(unsupported) for an image, and what check_output() finds.
SaveResult pull_files(const std::string& reference, const std::string& output, Store& store,
                      const PullOptions& options);

struct PushResult {
    Digest manifest_digest;
    uint64_t uploaded_bytes = 0;  ///< of layers and config; what the registry had is not sent
    size_t signatures = 0;        ///< that were sent along
};

/// Put an image of layers into a registry under a tag. A layer that the registry has is not sent;
/// one that it has in another repository, as far as this store knows, is mounted from there. Large
/// layers go in chunks, and a broken upload is continued where it broke. Throws: as pull_image.
PushResult push_image(const OciImage& image, const std::string& reference, const Store& store,
                      const RegistryAccess& access = {});

/// Put an artifact into a registry under a tag, its manifest as it is.
PushResult push_artifact(const Artifact& artifact, const std::string& reference, const Store& store,
                         const RegistryAccess& access = {});

/// Put everything into a registry that a tag of an OCI layout or OCI archive leads to, byte for
/// byte: the index with the images of all platforms, attestations and other manifests. Throws: as
/// push_image; Error(unsupported) for sources of other kinds.
PushResult push_index(const ImageRef& source, const std::string& reference, const Store& store,
                      const RegistryAccess& access = {}, bool with_signatures = true);

/// Something in a registry that is about an image: a signature, a list of software, a provenance.
struct Referrer {
    Digest digest;
    std::string media_type, artifact_type;
    std::string tag;  ///< cosign's, where it has one
    uint64_t size_bytes = 0;
};
/// What refers to the manifest or index that a reference names: by the referrers interface or the
/// tag that stands for it, and cosign's tags; of one artifact type, or ("") all.
std::vector<Referrer> referrers_of(const std::string& reference, const std::string& artifact_type,
                                   const RegistryAccess& access = {});

/// The name under which the store keeps what a reference names.
std::string stored_name_of(const std::string& reference);

/// What a registry says of a reference.
struct RegistryFacts {
    struct Platform {
        std::string name;  ///< "linux/arm64"
        Digest manifest_digest;
    };
    Content content;  ///< without layers or files, which cannot be opened; neither where the index
                      ///< has no image of this machine's platform and no other was asked for
    Digest index_digest;              ///< of an index; else empty
    std::vector<Platform> platforms;  ///< of its images, in its order
};
/// Read manifest and config, and no layer. Throws: as pull_image.
RegistryFacts look_at_reference(const std::string& reference, const std::string& platform = {},
                                const RegistryAccess& access = {});

}  // namespace slipway::image
