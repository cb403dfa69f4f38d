// Gathers, merges and judges the signatures that lie beside an image.
// Must not: believe a document, or let one that is damaged hide the others.
#include "attached.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bundle.hpp"
#include "cosign.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kLargestTextBytes = 1u << 20;
constexpr uint64_t kMostTextBytes = 32u << 20;  // of all that is attached to one image
constexpr size_t kMostReferrers = 64;
constexpr size_t kHexDigits = 64;

std::string tag_of(const Digest& digest) { return "sha256-" + digest.hex(); }

/// Read a document that must not be larger than that.
std::string read_small(const ReadDocument& read, const Descriptor& descriptor, bool is_manifest,
                       uint64_t limit_bytes) {
    if (descriptor.size_bytes > limit_bytes)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the document {} says it has {} bytes, more than any such has",
                                descriptor.digest.text(), descriptor.size_bytes));
    return read(descriptor, is_manifest);
}

/// Read a manifest's config and layers.
void take_parts(Attached& attached, const Json& manifest, const ReadDocument& read,
                uint64_t limit_bytes) {
    uint64_t left = kMostTextBytes;
    for (const auto& [digest, text] : attached.texts) left -= std::min<uint64_t>(left, text.size());
    const auto take = [&](const Json& part) {
        const Descriptor descriptor = parse_descriptor(part, "the signatures");
        if (attached.texts.contains(descriptor.digest)) return;
        if (descriptor.size_bytes > left)
            throw Error(ErrorKind::invalid_image,
                        fmt::format("the signatures have more than {} bytes", kMostTextBytes))
                .hint("ask the publisher to remove what is attached and not needed");
        left -= descriptor.size_bytes;
        attached.texts[descriptor.digest] = read_small(read, descriptor, false, limit_bytes);
    };
    if (manifest.contains("config")) take(manifest["config"]);
    for (const Json& layer : manifest["layers"]) take(layer);
}

/// Whether a manifest with layers is one of bundles.
bool holds_bundles(const Json& manifest) {
    const Json& layers = manifest["layers"];
    return std::any_of(layers.begin(), layers.end(), [](const Json& layer) {
        return json_string(layer, "mediaType", "a bundle's manifest")
            .starts_with(kBundleTypePrefix);
    });
}

Verdict judge_text(const Attached& attached, const CosignSignature& item,
                   const TrustedKeys& trusted) {
    const auto text = attached.texts.find(item.text.digest);
    if (text == attached.texts.end()) return {{}, "the text that it signs is missing"};
    Verdict verdict = judge_signature(item.signature, text->second, trusted);
    if (!verdict.signer) return verdict;
    const std::string problem = signed_text_problem(text->second, attached.subject.digest);
    if (!problem.empty()) return {{}, fmt::format("{}: {}", *verdict.signer, problem)};
    return verdict;
}

std::vector<Verdict> judge(const Attached& attached, const TrustedKeys& trusted,
                           const std::string& subject) {
    std::vector<Verdict> verdicts;
    if (attached.signatures)
        for (const auto& item :
             read_signature_manifest(attached.texts.at(attached.signatures->digest), subject))
            verdicts.push_back(judge_text(attached, item, trusted));
    for (const Descriptor& referrer : attached.referrers) {
        const Json manifest = parse_json(attached.texts.at(referrer.digest), subject);
        for (const Json& layer : manifest["layers"]) {
            const Descriptor bundle = parse_descriptor(layer, subject);
            verdicts.push_back(judge_bundle(attached.texts.at(bundle.digest),
                                            attached.subject.digest, attached.subject_text,
                                            trusted));
        }
    }
    for (const std::string& problem : attached.problems) verdicts.push_back({{}, problem});
    return verdicts;
}

}  // namespace

std::string signature_tag(const Digest& subject) { return tag_of(subject) + ".sig"; }
std::string referrers_tag(const Digest& subject) { return tag_of(subject); }
std::string index_tag(const Digest& subject) { return tag_of(subject) + ".index"; }

bool is_attachment_tag(const std::string& tag) {
    const std::string_view text = tag, prefix = "sha256-";
    if (!text.starts_with(prefix) || text.size() < prefix.size() + kHexDigits) return false;
    const std::string_view hex = text.substr(prefix.size(), kHexDigits);
    const std::string_view kind = text.substr(prefix.size() + kHexDigits);
    return hex.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
           (kind.empty() || kind == ".sig" || kind == ".index");
}

bool may_be_bundle(const Descriptor& referrer) {
    const std::string type = json_string(referrer.json, "artifactType", "the list of referrers");
    return type.empty() || type == kEmptyType || type.starts_with(kBundleTypePrefix);
}

void take_signatures(Attached& attached, const Descriptor& manifest, const ReadDocument& read) {
    const std::string text = read_small(read, manifest, true, kLargestTextBytes);
    read_signature_manifest(text, "the signatures");  // says what is wrong with it
    take_parts(attached, parse_json(text, "the signatures"), read, kLargestTextBytes);
    attached.texts[manifest.digest] = text;
    attached.signatures = manifest;
}

void take_referrer(Attached& attached, const Descriptor& manifest, const ReadDocument& read) {
    if (attached.referrers.size() == kMostReferrers) return;
    try {
        const std::string text = read_small(read, manifest, true, kLargestTextBytes);
        const Json json = parse_json(text, "a bundle's manifest");
        if (!json.is_object() || !json.contains("layers") || !json["layers"].is_array() ||
            json["layers"].size() > kMostReferrers)
            throw Error(ErrorKind::invalid_image, "a bundle's manifest has no layers");
        if (!holds_bundles(json)) return;
        // An index may list what is about something else; that is nobody's signature of this.
        if (!json.contains("subject") ||
            parse_descriptor(json["subject"], "a bundle's manifest").digest !=
                attached.subject.digest)
            return;
        take_parts(attached, json, read, kLargestBundleBytes);
        attached.texts[manifest.digest] = text;
        attached.referrers.push_back(manifest);
        // As an index lists it, whatever the one says where it was found.
        Json& listed = attached.referrers.back().json = to_json(manifest);
        for (const char* key : {"artifactType", "annotations"})
            if (json.contains(key)) listed[key] = json[key];
    } catch (const Error& error) {
        attached.problems.push_back(error.message());
    }
}

void merge(Attached& into, const Attached& from) {
    into.texts.insert(from.texts.begin(), from.texts.end());
    for (const Descriptor& referrer : from.referrers)
        if (std::none_of(into.referrers.begin(), into.referrers.end(),
                         [&](const auto& other) { return other.digest == referrer.digest; }))
            into.referrers.push_back(referrer);
    if (!from.signatures) return;
    const std::string& theirs = from.texts.at(from.signatures->digest);
    const std::string old = into.signatures ? into.texts.at(into.signatures->digest) : "";
    if (old.empty()) {
        into.signatures = from.signatures;
        return;
    }
    const SignatureManifest merged =
        add_signature_layers(old, parse_json(theirs, "the signatures")["layers"], "the signatures");
    if (parse_json(merged.manifest, "the signatures")["layers"] ==
        parse_json(old, "the signatures")["layers"])
        return;
    Descriptor descriptor;
    descriptor.media_type = kManifestType;
    descriptor.digest = sha256(merged.manifest);
    descriptor.size_bytes = merged.manifest.size();
    into.texts[sha256(merged.config)] = merged.config;
    into.texts[descriptor.digest] = merged.manifest;
    into.signatures = descriptor;
}

void add_signature(Attached& attached, const std::string& name, const SigningKey& key) {
    const std::string text = signed_text_of(attached.subject.digest, name);
    Attached one;
    one.subject = attached.subject;
    Descriptor payload;
    payload.media_type = kSignedTextType;
    payload.digest = sha256(text);
    payload.size_bytes = text.size();
    const SignatureManifest made = add_signature_layers(
        "", Json::array({signature_layer(payload, key.sign(text))}), "the signatures");
    one.texts = {{payload.digest, text},
                 {sha256(made.config), made.config},
                 {sha256(made.manifest), made.manifest}};
    one.signatures.emplace();
    one.signatures->media_type = kManifestType;
    one.signatures->digest = sha256(made.manifest);
    one.signatures->size_bytes = made.manifest.size();
    merge(attached, one);
}

std::string referrers_index(const Json& old, const std::vector<Descriptor>& referrers) {
    Json index = old.is_object() ? old : Json{{"schemaVersion", 2}, {"mediaType", kIndexType}};
    const auto there = parse_index(index, "the list of referrers");
    if (there.empty()) index["manifests"] = Json::array();
    for (const Descriptor& referrer : referrers) {
        if (std::any_of(there.begin(), there.end(),
                        [&](const auto& other) { return other.digest == referrer.digest; }))
            continue;
        Json item = to_json(referrer);
        for (const char* key : {"artifactType", "annotations"})
            if (referrer.json.contains(key)) item[key] = referrer.json[key];
        index["manifests"].push_back(item);
    }
    return to_text(index);
}

SignatureReport judge_attached(const std::vector<Attached>& attached, const TrustedKeys& trusted,
                               const std::string& subject, const std::string& how_to_sign) {
    SignatureReport report;
    for (const Attached& one : attached)
        for (Verdict& verdict : judge(one, trusted, subject)) {
            if (!verdict.signer) {
                report.others.push_back(std::move(verdict.why));
                continue;
            }
            if (report.digest.empty()) report.digest = one.subject.digest;
            if (report.digest == one.subject.digest) report.signers.push_back(*verdict.signer);
        }
    if (!report.signers.empty()) return report;
    if (report.others.empty())
        throw Error(ErrorKind::invalid_image, fmt::format("{} is not signed", subject))
            .hint(how_to_sign);
    Error error(ErrorKind::invalid_image,
                fmt::format("{} is signed by nobody who is trusted here", subject));
    for (const auto& why : report.others) error.note("a signature: " + why);
    throw error.hint(
        "name the signer's public key with --key or its authority with --ca, if you trust them");
}

}  // namespace slipway::image
