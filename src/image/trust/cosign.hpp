// Cosign's signatures as documents: a manifest under the tag sha256-HEX.sig, whose layers are the
// signed texts. Private to the image room. Source: sigstore/cosign specs/SIGNATURE_SPEC.md.
#pragma once

#include <string>
#include <vector>

#include "../oci/model.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::image {

inline constexpr const char* kSignedTextType = "application/vnd.dev.cosign.simplesigning.v1+json";

/// What is signed: that this digest is meant. `name`: of the image, as its signer calls it.
std::string signed_text_of(const Digest& digest, const std::string& name);
/// "" or why a signed text is not about this image.
std::string signed_text_problem(const std::string& text, const Digest& digest);

struct CosignSignature {
    Descriptor text;  ///< its json is the manifest's layer
    Signature signature;
};
/// The signatures of a manifest; ids of keys are not in them. Layers of other kinds are passed
/// over. Throws: Error(invalid_image) naming `subject`.
std::vector<CosignSignature> read_signature_manifest(const std::string& manifest,
                                                     const std::string& subject);

/// One more layer for such a manifest.
Json signature_layer(const Descriptor& text, const Signature& signature);

struct SignatureManifest {
    std::string config, manifest;
};
/// `old` ("": none) with the layers added that it has not; everything else in it stays. An Ed25519
/// signature of the same text by the same key is the same layer.
SignatureManifest add_signature_layers(const std::string& old, const Json& layers,
                                       const std::string& subject);

}  // namespace slipway::image
