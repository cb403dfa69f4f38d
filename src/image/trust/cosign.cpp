// Reads and makes the manifests under which cosign keeps signatures.
// Must not: take a text's word for anything before its signature was checked.
#include "cosign.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../oci/model.hpp"
#include "base64.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

constexpr const char* kSignatureKey = "dev.cosignproject.cosign/signature";
constexpr const char* kCertificateKey = "dev.sigstore.cosign/certificate";
constexpr const char* kChainKey = "dev.sigstore.cosign/chain";
constexpr const char* kTextKind = "cosign container image signature";
constexpr const char* kEnd = "-----END CERTIFICATE-----";
constexpr size_t kMostLayers = 256;

Json layers_of(const Json& manifest, const std::string& subject) {
    const auto found = manifest.is_object() ? manifest.find("layers") : manifest.end();
    if (!manifest.is_object() || found == manifest.end() || !found->is_array())
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the signatures of {} are no manifest with layers", subject));
    if (found->size() > kMostLayers)
        throw Error(ErrorKind::invalid_image, fmt::format("{} has {} signatures, more than {}",
                                                          subject, found->size(), kMostLayers));
    return *found;
}

/// What makes two layers the same signature.
std::pair<Json, Json> identity_of(const Json& layer) {
    const Json notes = layer.value("annotations", Json::object());
    return {layer.value("digest", Json()),
            notes.is_object() ? notes.value(kSignatureKey, Json()) : Json()};
}

}  // namespace

std::string signed_text_of(const Digest& digest, const std::string& name) {
    return to_text({{"critical",
                     {{"identity", {{"docker-reference", name}}},
                      {"image", {{"docker-manifest-digest", digest.text()}}},
                      {"type", kTextKind}}},
                    {"optional", nullptr}});
}

std::string signed_text_problem(const std::string& text, const Digest& digest) {
    const Json document = parse_foreign(text);
    const Json critical = document.is_object() ? document.value("critical", Json()) : Json();
    if (!critical.is_object() || critical.value("type", Json()) != kTextKind)
        return "what it signs is no statement about an image";
    const Json image = critical.value("image", Json());
    if (!image.is_object() || image.value("docker-manifest-digest", Json()) != digest.text())
        return "it is a signature of another image";
    return "";
}

std::vector<CosignSignature> read_signature_manifest(const std::string& manifest,
                                                     const std::string& subject) {
    std::vector<CosignSignature> signatures;
    for (const Json& layer : layers_of(parse_json(manifest, subject), subject)) {
        CosignSignature item{parse_descriptor(layer, subject), {}};
        const Json notes = layer.value("annotations", Json::object());
        if (item.text.media_type != kSignedTextType || !notes.is_object()) continue;
        const auto bytes = from_base64(json_string(notes, kSignatureKey, subject));
        if (!bytes) continue;
        item.signature.bytes = *bytes;
        item.signature.certificates = json_string(notes, kCertificateKey, subject) + "\n" +
                                      json_string(notes, kChainKey, subject);
        if (item.signature.certificates.size() == 1) item.signature.certificates.clear();
        signatures.push_back(std::move(item));
    }
    return signatures;
}

Json signature_layer(const Descriptor& text, const Signature& signature) {
    Json layer = to_json(text);
    layer["annotations"] = {{kSignatureKey, to_base64(signature.bytes)}};
    const std::string& pem = signature.certificates;
    const size_t end = pem.find(kEnd);
    if (end == std::string::npos) return layer;
    const size_t first = end + std::string_view(kEnd).size();
    layer["annotations"][kCertificateKey] = pem.substr(0, first) + "\n";
    const size_t next = pem.find("-----BEGIN", first);
    if (next != std::string::npos) layer["annotations"][kChainKey] = pem.substr(next);
    return layer;
}

SignatureManifest add_signature_layers(const std::string& old, const Json& layers,
                                       const std::string& subject) {
    Json manifest = old.empty() ? Json{{"schemaVersion", 2}, {"mediaType", kManifestType}}
                                : parse_json(old, subject);
    Json all = old.empty() ? Json::array() : layers_of(manifest, subject);
    for (const Json& layer : layers) {
        const bool there = std::any_of(all.begin(), all.end(), [&](const Json& other) {
            return other.is_object() && identity_of(other) == identity_of(layer);
        });
        if (!there) all.push_back(layer);
    }
    Json diff_ids = Json::array();
    for (const Json& layer : all)
        diff_ids.push_back(parse_descriptor(layer, subject).digest.text());
    const std::string config = to_text({{"architecture", ""},
                                        {"os", ""},
                                        {"created", "0001-01-01T00:00:00Z"},
                                        {"config", Json::object()},
                                        {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}});
    manifest["config"] = {
        {"mediaType", kConfigType}, {"digest", sha256(config).text()}, {"size", config.size()}};
    manifest["layers"] = all;
    return {config, to_text(manifest)};
}

}  // namespace slipway::image
