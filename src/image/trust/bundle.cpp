// Reads Sigstore bundles, and judges those that were made with a key or with a certificate of an
// authority that is believed.
// Must not: ask a transparency log, or believe what a bundle says of its key, its time or its log.
#include "bundle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../oci/model.hpp"
#include "base64.hpp"
#include "certificate.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"

namespace slipway::image {
namespace {

constexpr const char* kStatementPayload = "application/vnd.in-toto+json";
// What cosign's `sign` states; any other predicate is an attestation about the image.
constexpr const char* kSignPredicate = "https://sigstore.dev/cosign/sign/v1";
constexpr size_t kMostSignatures = 8;
constexpr size_t kMostCertificates = 16;

const std::vector<std::string>& bundle_types() {
    static const std::vector<std::string> types = {
        "application/vnd.dev.sigstore.bundle.v0.3+json",
        "application/vnd.dev.sigstore.bundle+json;version=0.3",
        "application/vnd.dev.sigstore.bundle+json;version=0.2",
        "application/vnd.dev.sigstore.bundle+json;version=0.1",
    };
    return types;
}

Error malformed(const std::string& detail) {
    return {ErrorKind::invalid_image, "a Sigstore bundle that cannot be understood: " + detail};
}

/// A member, or null where there is no object or no such member.
const Json& member(const Json& json, const char* key) {
    static const Json none;
    if (!json.is_object()) return none;
    const auto found = json.find(key);
    return found == json.end() ? none : *found;
}

std::string text_of(const Json& json, const char* key) {
    const Json& value = member(json, key);
    return value.is_string() ? value.get<std::string>() : std::string();
}

std::string bytes_of(const Json& json, const char* key) {
    const Json& value = member(json, key);
    const auto bytes = value.is_string() ? from_base64(value.get_ref<const std::string&>())
                                         : std::optional<std::string>();
    if (!bytes || bytes->empty())
        throw malformed(fmt::format("its {} is no base64", slipway::quoted(key)));
    return *bytes;
}

Digest digest_of_bytes(const std::string& bytes) {
    if (bytes.size() != 32) return {};
    std::string text = "sha256:";
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return Digest::parse(text);
}

std::string certificates_of(const Json& material) {
    std::string pem;
    const auto add = [&pem](const Json& certificate) {
        const std::string one = pem_of(bytes_of(certificate, "rawBytes"));
        if (one.empty()) throw malformed("its certificate is none");
        pem += one;
    };
    if (const Json& leaf = member(material, "certificate"); !leaf.is_null()) add(leaf);
    const Json& chain = member(member(material, "x509CertificateChain"), "certificates");
    if (chain.is_array() && chain.size() <= kMostCertificates)
        for (const Json& certificate : chain) add(certificate);
    return pem;
}

void read_material(const Json& material, Bundle& bundle) {
    if (!material.is_object()) throw malformed("it has no verificationMaterial");
    bundle.certificates = certificates_of(material);
    const Json& key = member(material, "publicKey");
    if (bundle.certificates.empty() == key.is_null())
        throw malformed("it names not exactly one of a key and a certificate");
    if (const auto hint = from_base64(text_of(key, "hint"))) bundle.key = digest_of_bytes(*hint);
}

void read_envelope(const Json& envelope, Bundle& bundle) {
    bundle.is_statement = true;
    bundle.payload_type = text_of(envelope, "payloadType");
    bundle.payload = bytes_of(envelope, "payload");
    const Json& signatures = member(envelope, "signatures");
    if (!signatures.is_array() || signatures.empty() || signatures.size() > kMostSignatures)
        throw malformed(fmt::format("its envelope has not 1 to {} signatures", kMostSignatures));
    for (const Json& one : signatures) bundle.signatures.push_back(bytes_of(one, "sig"));
}

void read_message(const Json& message, Bundle& bundle) {
    const Json& digest = member(message, "messageDigest");
    if (text_of(digest, "algorithm") != "SHA2_256")
        throw malformed("the digest that it is of is no SHA2_256");
    bundle.message = digest_of_bytes(bytes_of(digest, "digest"));
    if (bundle.message.empty()) throw malformed("the digest that it is of has not 32 bytes");
    bundle.signatures.push_back(bytes_of(message, "signature"));
}

/// "" or why a signed statement is no signature of this image.
std::string statement_problem(const Bundle& bundle, const Digest& subject) {
    if (bundle.payload_type != kStatementPayload)
        return fmt::format("what it signs is {}, no statement about an image",
                           slipway::quoted(bundle.payload_type));
    const Json statement = parse_foreign(bundle.payload);
    const std::string type = text_of(statement, "_type");
    if (type != "https://in-toto.io/Statement/v1" && type != "https://in-toto.io/Statement/v0.1")
        return "what it signs is no statement about an image";
    const Json& subjects = member(statement, "subject");
    const bool meant =
        subjects.is_array() && std::any_of(subjects.begin(), subjects.end(), [&](const Json& one) {
            return text_of(member(one, "digest"), "sha256") == subject.hex();
        });
    if (!meant) return "it is a signature of another image";
    const std::string predicate = text_of(statement, "predicateType");
    if (predicate != kSignPredicate)
        return fmt::format("it attests {}, and is no signature of the image",
                           slipway::quoted(predicate));
    return "";
}

/// Who made a signature with a key, the hint used for the words only.
Verdict judge_key(const std::string& bytes, const Digest& hint, std::string_view message,
                  const TrustedKeys& trusted) {
    Verdict verdict;
    verdict.signer = trusted.signer_of({{}, bytes, {}}, message, verdict.why);
    if (!verdict.signer && !hint.empty())
        verdict.signer = trusted.signer_of({hint, bytes, {}}, message, verdict.why);
    return verdict;
}

}  // namespace

std::string pre_authentication_encoding(std::string_view type, std::string_view payload) {
    return fmt::format("DSSEv1 {} {} {} {}", type.size(), type, payload.size(), payload);
}

Bundle parse_bundle(const std::string& text) {
    if (text.size() > kLargestBundleBytes)
        throw malformed(fmt::format("it has more than {} bytes", kLargestBundleBytes));
    const Json json = parse_foreign(text);
    if (!json.is_object()) throw malformed("it is no JSON object");
    const std::string type = text_of(json, "mediaType");
    const auto& types = bundle_types();
    if (std::find(types.begin(), types.end(), type) == types.end())
        throw malformed(fmt::format("its type is {}", slipway::quoted(type)));
    Bundle bundle;
    read_material(member(json, "verificationMaterial"), bundle);
    const Json& envelope = member(json, "dsseEnvelope");
    const Json& message = member(json, "messageSignature");
    if (envelope.is_null() == message.is_null())
        throw malformed("it holds not exactly one of an envelope and a signature");
    if (!envelope.is_null())
        read_envelope(envelope, bundle);
    else
        read_message(message, bundle);
    return bundle;
}

Verdict judge_signature(const Signature& signature, std::string_view message,
                        const TrustedKeys& trusted) {
    Verdict verdict;
    verdict.signer = trusted.signer_of(signature, message, verdict.why);
    if (verdict.signer || signature.certificates.empty()) return verdict;
    const CertificateClaims claims = claims_of(signature.certificates);
    if (!claims.keyless) return verdict;
    verdict.why = fmt::format(
        "signed by {}, not believed: keyless signatures need the transparency log, which Slipway "
        "does not ask ({})",
        claims.identity, verdict.why);
    return verdict;
}

Verdict judge_bundle(const std::string& text, const Digest& subject, std::string_view manifest,
                     const TrustedKeys& trusted) {
    Bundle bundle;
    try {
        bundle = parse_bundle(text);
    } catch (const Error& error) {
        return {{}, error.message()};
    }
    const std::string message =
        bundle.is_statement ? pre_authentication_encoding(bundle.payload_type, bundle.payload)
                            : std::string(manifest);
    if (!bundle.is_statement && (bundle.message != subject || sha256(manifest) != subject))
        return {{}, "it is a signature of another image"};
    Verdict verdict;
    for (const std::string& bytes : bundle.signatures) {
        verdict = bundle.certificates.empty()
                      ? judge_key(bytes, bundle.key, message, trusted)
                      : judge_signature({{}, bytes, bundle.certificates}, message, trusted);
        if (verdict.signer) break;
    }
    if (!verdict.signer || !bundle.is_statement) return verdict;
    const std::string problem = statement_problem(bundle, subject);
    if (!problem.empty()) return {{}, fmt::format("{}: {}", *verdict.signer, problem)};
    return verdict;
}

}  // namespace slipway::image
