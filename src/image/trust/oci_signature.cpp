// Cosign's signatures of images in an OCI layout: a manifest beside the image, whose layers are the
// signed texts. Source: sigstore/cosign specs/SIGNATURE_SPEC.md.
// Must not: take a text's word for anything before its signature was checked.
#include <fmt/format.h>
#include <openssl/evp.h>

#include "../oci/model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::image {
namespace {

constexpr const char* kPayloadType = "application/vnd.dev.cosign.simplesigning.v1+json";
constexpr const char* kSignatureKey = "dev.cosignproject.cosign/signature";
constexpr const char* kCertificateKey = "dev.sigstore.cosign/certificate";
constexpr const char* kChainKey = "dev.sigstore.cosign/chain";
constexpr const char* kPayloadKind = "cosign container image signature";
constexpr const char* kEnd = "-----END CERTIFICATE-----";

std::string to_base64(const std::string& bytes) {
    std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
    text.resize(static_cast<size_t>(size));
    return text;
}

std::optional<std::string> from_base64(const std::string& text) {
    if (text.size() % 4 != 0 || text.size() > 1u << 20) return std::nullopt;
    std::string bytes(text.size() / 4 * 3, '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
    if (size < 0) return std::nullopt;
    size_t padding = 0;
    while (padding < 2 && text.size() > padding && text[text.size() - 1 - padding] == '=')
        ++padding;
    bytes.resize(static_cast<size_t>(size) - padding);
    return bytes;
}

std::string tag_of(const Digest& digest) { return "sha256-" + digest.hex() + ".sig"; }

/// What is signed: that this digest is meant.
std::string payload_of(const Digest& digest, const std::string& name) {
    return to_text({{"critical",
                     {{"identity", {{"docker-reference", name}}},
                      {"image", {{"docker-manifest-digest", digest.text()}}},
                      {"type", kPayloadKind}}},
                    {"optional", nullptr}});
}

/// The layout's entry with a tag, among them those that are no images.
std::optional<Descriptor> find_tag(const std::vector<Descriptor>& entries, const std::string& tag) {
    for (const auto& entry : entries)
        if (entry.tag == tag) return entry;
    return std::nullopt;
}

/// The image that a signature is of.
struct Signed {
    std::shared_ptr<const BlobSource> blobs;
    std::vector<Descriptor> entries;
    Descriptor image;
    std::string subject;
};

Signed find_signed(const std::string& directory, const std::string& tag) {
    Signed found;
    found.subject = slipway::quoted(tag.empty() ? directory : directory + ":" + tag);
    open_oci_layout(directory, tag);  // says what is wrong with it
    found.blobs = open_layout_blobs(directory);
    found.entries = parse_index(read_layout_index(directory), found.subject);
    found.image = choose_image(found.entries, tag, "", slipway::quoted(directory));
    return found;
}

struct Layered {
    Descriptor descriptor;
    Signature signature;
};

/// The texts of a signature manifest with their signatures; ids of keys are not in them.
std::vector<Layered> read_signatures(const Signed& image, const Descriptor& manifest) {
    const Json document =
        parse_json(read_blob(*image.blobs, manifest, image.subject), image.subject);
    std::vector<Layered> signatures;
    if (!document.is_object()) return signatures;
    for (const Json& layer : document.value("layers", Json::array())) {
        Layered item{parse_descriptor(layer, image.subject), {}};
        const Json notes = layer.value("annotations", Json::object());
        const auto bytes = from_base64(json_string(notes, kSignatureKey, image.subject));
        if (item.descriptor.media_type != kPayloadType || !bytes) continue;
        item.signature.bytes = *bytes;
        item.signature.certificates = json_string(notes, kCertificateKey, image.subject) + "\n" +
                                      json_string(notes, kChainKey, image.subject);
        if (item.signature.certificates.size() == 1) item.signature.certificates.clear();
        signatures.push_back(std::move(item));
    }
    return signatures;
}

/// "" or why a signed text is not about this image.
std::string payload_problem(const std::string& payload, const Digest& digest) {
    const Json document = Json::parse(payload, nullptr, false);
    const Json critical = document.is_object() ? document.value("critical", Json()) : Json();
    if (!critical.is_object() || critical.value("type", Json()) != kPayloadKind)
        return "what it signs is no statement about an image";
    const Json image = critical.value("image", Json());
    if (!image.is_object() || image.value("docker-manifest-digest", Json()) != digest.text())
        return "it is a signature of another image";
    return "";
}

Json layer_of(const Descriptor& payload, const Signature& signature) {
    Json layer = to_json(payload);
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

}  // namespace

SignatureReport sign_oci_layout(const std::string& directory, const std::string& tag,
                                const SigningKey& key) {
    const Signed image = find_signed(directory, tag);
    const std::string payload = payload_of(image.image.digest, image.image.tag);
    const Signature signature = key.sign(payload);
    LayoutWriter writer(directory, join_path(directory, "blobs/sha256"));
    const Descriptor text = writer.put(payload, kPayloadType);
    Json layers = Json::array();
    if (const auto old = find_tag(image.entries, tag_of(image.image.digest)))
        for (const auto& item : read_signatures(image, *old)) {
            std::string why;  // an Ed25519 signature of the same text by the same key is the same
            if (item.signature.bytes != signature.bytes) layers.push_back(item.descriptor.json);
        }
    layers.push_back(layer_of(text, signature));
    Json diff_ids = Json::array();
    for (const Json& layer : layers) diff_ids.push_back(layer["digest"]);
    const Json config{{"architecture", ""},
                      {"os", ""},
                      {"created", "0001-01-01T00:00:00Z"},
                      {"config", Json::object()},
                      {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}};
    const Descriptor config_blob = writer.put(to_text(config), kConfigType);
    const Json manifest{{"schemaVersion", 2},
                        {"mediaType", kManifestType},
                        {"config", to_json(config_blob)},
                        {"layers", layers}};
    writer.set_tag(tag_of(image.image.digest), writer.put(to_text(manifest), kManifestType));
    return {image.image.digest, image.image.size_bytes, {"key " + key.id().text()}, {}};
}

SignatureReport verify_oci_layout(const std::string& directory, const std::string& tag,
                                  const TrustedKeys& trusted) {
    const Signed image = find_signed(directory, tag);
    const auto manifest = find_tag(image.entries, tag_of(image.image.digest));
    if (!manifest)
        throw Error(ErrorKind::invalid_image, fmt::format("{} is not signed", image.subject))
            .hint(fmt::format("sign it: slipway sign oci:{} --key KEY.pem",
                              tag.empty() ? directory : directory + ":" + tag));
    SignatureReport report;
    report.digest = image.image.digest;
    for (const auto& item : read_signatures(image, *manifest)) {
        const std::string payload = read_blob(*image.blobs, item.descriptor, image.subject);
        std::string why;
        const auto signer = trusted.signer_of(item.signature, payload, why);
        const std::string problem = signer ? payload_problem(payload, image.image.digest) : why;
        if (problem.empty())
            report.signers.push_back(*signer);
        else
            report.others.push_back(problem);
    }
    if (report.signers.empty()) {
        Error error(ErrorKind::invalid_image,
                    fmt::format("{} is signed by nobody who is trusted here", image.subject));
        for (const auto& why : report.others) error.note("a signature: " + why);
        throw error.hint(
            "name the signer's public key with --key or its authority with --ca, if you trust "
            "them");
    }
    const OciImage whole = read_image(image.blobs, image.image, image.subject);
    verify_blobs(whole);
    for (const auto& layer : whole.layers) report.content_bytes += layer.size_bytes;
    return report;
}

SignatureReport sign_image(const ImageRef& ref, const SigningKey& key) {
    if (ref.kind == RefKind::squashfs) return sign_squashfs(ref.path, key);
    if (ref.kind == RefKind::oci_layout) return sign_oci_layout(ref.path, ref.name, key);
    throw Error(ErrorKind::unsupported,
                fmt::format("cannot sign {} ({})", slipway::quoted(ref.text), to_string(ref.kind)))
        .hint(ref.kind == RefKind::sif
                  ? "sign a SIF with: apptainer sign; or convert it: slipway convert FILE.sif "
                    "FILE.sqfs"
                  : fmt::format("make a file of it first: slipway convert {} FILE.sqfs", ref.text));
}

SignatureReport verify_image(const ImageRef& ref, const TrustedKeys& trusted) {
    if (ref.kind == RefKind::squashfs) return verify_signed_squashfs(ref.path, trusted);
    if (ref.kind == RefKind::oci_layout) return verify_oci_layout(ref.path, ref.name, trusted);
    throw Error(ErrorKind::unsupported,
                fmt::format("{} ({}) carries no signature that can be verified",
                            slipway::quoted(ref.text), to_string(ref.kind)))
        .hint("signatures are in .sqfs files and in oci:DIR[:TAG]");
}

}  // namespace slipway::image
