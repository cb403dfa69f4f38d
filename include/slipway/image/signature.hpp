// Signatures: keys, certificates, the seal of a squashfs file, cosign's signatures of OCI images.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/base/digest.hpp"

namespace slipway::image {

/// A signature and what is needed to find its key.
struct Signature {
    Digest key_id;             ///< of the public key's SubjectPublicKeyInfo; empty: not told
    std::string bytes;         ///< Ed25519: 64 bytes; ECDSA: DER
    std::string certificates;  ///< PEM, the signer's first; "": none
};

/// A private key, Ed25519 or ECDSA on P-256, and the certificate that goes with it.
class SigningKey {
 public:
    /// Read PEM files; an encrypted key's password comes from $SLIPWAY_KEY_PASSWORD or the
    /// terminal. Throws: Error(usage) when a file holds no such key, or the certificate is not the
    /// key's.
    explicit SigningKey(const std::string& key_file, const std::string& certificate_file = {});
    ~SigningKey();
    SigningKey(SigningKey&&) noexcept;
    SigningKey& operator=(SigningKey&&) noexcept;
    Signature sign(std::string_view message) const;
    const Digest& id() const;

 private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Public keys and certificate authorities that are believed.
class TrustedKeys {
 public:
    TrustedKeys();
    ~TrustedKeys();
    TrustedKeys(TrustedKeys&&) noexcept;
    TrustedKeys& operator=(TrustedKeys&&) noexcept;
    /// Believe what a PEM file holds: public keys, and certificates of authorities.
    /// Throws: Error(usage) for a file with neither.
    void add_file(const std::string& file);
    /// Believe every "*.pem" and "*.pub" of a directory, if it is there.
    void add_directory(const std::string& directory);
    bool empty() const;

    /// Who signed the message: "key sha256:..." or "certificate CN=..."; std::nullopt when nobody
    /// who is believed did, and then `why` says what is wrong.
    std::optional<std::string> signer_of(const Signature& signature, std::string_view message,
                                         std::string& why) const;

 private:
    struct State;
    std::unique_ptr<State> state_;
};

struct SignatureReport {
    Digest digest;                     ///< of what is signed: a seal, or an image's manifest
    uint64_t content_bytes = 0;        ///< that the signature covers
    std::vector<std::string> signers;  ///< who are believed
    std::vector<std::string> others;   ///< who signed too, and why they are not believed
    bool layers_checked = true;        ///< false: the manifest was, its layers were not fetched
};

/// What is asked of a registry about the signatures of an image.
enum class SignaturesWanted {
    none,
    tag,      ///< cosign's; what goes wrong is no error
    all,      ///< Sigstore bundles, too, which takes two requests more
    required  ///< as all, and what goes wrong is an error
};

/// Sign a .sqfs file: hash tree, seal and signature are put behind the squashfs; a file that has a
/// seal gets one signature more. The file is replaced by rename: whole or not at all.
/// Throws: Error(invalid_image) when a seal is there that does not fit the contents.
SignatureReport sign_squashfs(const std::string& path, const SigningKey& key);
/// Read all of a signed file and check every byte.
/// Throws: Error(invalid_image) for what is unsigned, changed, or signed by nobody believed.
SignatureReport verify_signed_squashfs(const std::string& path, const TrustedKeys& trusted);
/// Check the signature alone, and return the digest of the seal: whoever reads the file against it
/// (SealedContent) finds every changed block. Throws: as above.
SignatureReport verify_seal(int fd, const std::string& subject, const TrustedKeys& trusted);

/// Sign an image in an OCI layout as cosign does: "sha256-HEX.sig" beside the image's tag.
SignatureReport sign_oci_layout(const std::string& directory, const std::string& tag,
                                const SigningKey& key);
/// Check an image's signatures in a layout, those of its manifest and of an index that names it,
/// and every blob that it names against its digest.
SignatureReport verify_oci_layout(const std::string& directory, const std::string& tag,
                                  const TrustedKeys& trusted);

}  // namespace slipway::image
