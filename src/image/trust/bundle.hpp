// Sigstore bundles: a signature with what is needed to check it, in one JSON document. Private to
// the image room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slipway/image/signature.hpp"

namespace slipway::image {

/// Begins the media type of bundles of every version, and the artifactType of what holds them.
inline constexpr std::string_view kBundleTypePrefix = "application/vnd.dev.sigstore.bundle";
inline constexpr uint64_t kLargestBundleBytes = 4u << 20;

/// What a bundle says, nothing of it believed.
struct Bundle {
    bool is_statement = false;  ///< a DSSE envelope; else a signature of the manifest's bytes
    std::string payload_type, payload;  ///< of the envelope
    Digest message;                     ///< what is signed, if no envelope
    std::vector<std::string> signatures;
    std::string certificates;  ///< PEM, the signer's first; "": a key
    Digest key;                ///< which key, if its hint is the SHA-256 of it; may be wrong
};
/// Understand a bundle of version 0.1 to 0.3. Throws: Error(invalid_image) saying what is wrong.
/// Source: sigstore/protobuf-specs, sigstore_bundle.proto and sigstore_common.proto.
Bundle parse_bundle(const std::string& text);

/// What the signature of a DSSE envelope is over. Source: secure-systems-lab/dsse protocol.md.
std::string pre_authentication_encoding(std::string_view type, std::string_view payload);

/// Who is believed to have signed an image, or why nobody is.
struct Verdict {
    std::optional<std::string> signer;
    std::string why;
};
/// `subject`: the digest of the image's manifest or index; `manifest`: its bytes.
Verdict judge_bundle(const std::string& text, const Digest& subject, std::string_view manifest,
                     const TrustedKeys& trusted);
/// The same for a bare signature over a message, with the words for keyless ones.
Verdict judge_signature(const Signature& signature, std::string_view message,
                        const TrustedKeys& trusted);

}  // namespace slipway::image
