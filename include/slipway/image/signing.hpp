// Signing and verifying an image wherever it lies.
#pragma once

#include <string>

#include "slipway/image/reference.hpp"
#include "slipway/image/registry.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::image {

/// Where images lie that are no files.
struct Places {
    std::string store;  ///< as Store::open takes it
    RegistryAccess registry;
};

/// Sign a .sqfs file, `oci:DIR[:TAG]`, a stored name or `docker://REF`: there, beside the image.
/// Throws: Error(unsupported) for other images, with what to do.
SignatureReport sign_image(const ImageRef& ref, const SigningKey& key, const Places& places = {});
/// Verify one of those, or an OCI archive. Of an image in a registry no layer is fetched.
/// Throws: Error(invalid_image) for what is unsigned, changed, or signed by nobody believed;
/// Error(unsupported) for images that carry no signature.
SignatureReport verify_image(const ImageRef& ref, const TrustedKeys& trusted,
                             const Places& places = {});

/// Sign the manifest or index that a reference names, in the registry, as cosign does: others'
/// signatures stay. Throws: as push_image.
SignatureReport sign_in_registry(const std::string& reference, const SigningKey& key,
                                 const RegistryAccess& access);
/// Check the signatures of the manifest or index that a reference names.
SignatureReport verify_in_registry(const std::string& reference, const TrustedKeys& trusted,
                                   const RegistryAccess& access);

struct SentSignatures {
    size_t sent = 0;                  ///< signatures and bundles that the registry has now
    std::vector<Digest> left_behind;  ///< indexes that are signed, of which one image was pushed
};
/// Send what lies beside an image and is about the manifest that was pushed.
SentSignatures push_signatures(const OciImage& image, const std::string& reference,
                               const Digest& pushed, const RegistryAccess& access);
/// How many signatures and bundles lie beside an image.
size_t count_signatures(const OciImage& image);

}  // namespace slipway::image
