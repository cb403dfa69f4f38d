// Fetches, sends, makes and checks signatures in registries.
// Must not: fetch a layer, or let a signature that cannot be had break a pull that needs none.
#include "signatures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../store/use.hpp"
#include "../trust/cosign.hpp"
#include "config.hpp"
#include "referrers.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/signing.hpp"

namespace slipway::image {
namespace {

/// The manifest or index that a reference names.
Found named_by(RegistryClient& client) { return Finder(client, nullptr).find_named(); }

const std::string& text_of(const Found& found) {
    return found.documents->all().at(found.named.digest);
}

RegistryClient client_for_writing(const RegistryReference& reference,
                                  const RegistryAccess& access) {
    return {endpoints_of(reference, registry_rules()).back(), reference, access, "pull,push"};
}

size_t count_of(const Attached& attached) {
    size_t count = attached.referrers.size();
    if (attached.signatures)
        count += read_signature_manifest(attached.texts.at(attached.signatures->digest),
                                         "the signatures")
                     .size();
    return count;
}

/// The signatures' manifest of a registry that has one: the same layers and ours.
void send_signatures(RegistryClient& client, const Attached& attached) {
    const Json layers =
        parse_json(attached.texts.at(attached.signatures->digest), "the signatures")["layers"];
    change_tag(client, signature_tag(attached.subject.digest), kManifestType,
               [&](const std::string& text) {
                   const SignatureManifest made =
                       add_signature_layers(text, layers, "the signatures");
                   if (!text.empty() && parse_json(made.manifest, "the signatures")["layers"] ==
                                            parse_json(text, "the signatures")["layers"])
                       return std::string();
                   put_small_blob(client, made.config);
                   return made.manifest;
               });
}

}  // namespace

Attached fetch_attached(RegistryClient& client, const Descriptor& subject,
                        const std::string& subject_text, bool with_bundles) {
    Attached attached;
    attached.subject = subject;
    attached.subject_text = subject_text;
    std::string tagged;
    const ReadDocument read = [&](const Descriptor& descriptor, bool is_manifest) {
        if (!tagged.empty() && sha256(tagged) == descriptor.digest) return tagged;
        return read_small_blob(client, descriptor, is_manifest);
    };
    if (const auto found = find_manifest(client, signature_tag(subject.digest))) {
        tagged = found->text;
        Descriptor manifest;
        manifest.media_type = kManifestType;
        manifest.digest = sha256(tagged);
        manifest.size_bytes = tagged.size();
        take_signatures(attached, manifest, read);
    }
    if (with_bundles)
        for (const Descriptor& referrer : list_referrers(client, subject.digest))
            if (may_be_bundle(referrer)) take_referrer(attached, referrer, read);
    return attached;
}

void send_attached(RegistryClient& client, const Attached& attached) {
    for (const auto& [digest, text] : attached.texts) {
        const bool manifest =
            (attached.signatures && digest == attached.signatures->digest) ||
            std::any_of(attached.referrers.begin(), attached.referrers.end(),
                        [&](const auto& referrer) { return referrer.digest == digest; });
        if (!manifest) put_small_blob(client, text);
    }
    if (attached.signatures) send_signatures(client, attached);
    for (const Descriptor& referrer : attached.referrers)
        put_referrer(client, attached.subject.digest, referrer, attached.texts.at(referrer.digest));
}

namespace {

/// What is attached to the image, and to the index that it was taken from.
std::vector<Attached> fetch_attached(RegistryClient& client, const Found& found,
                                     SignaturesWanted wanted) {
    const bool bundles = wanted != SignaturesWanted::tag;
    std::vector<Attached> all = {fetch_attached(client, found.named, text_of(found), bundles)};
    if (found.named.digest != found.manifest.digest) {
        all.back().is_index = true;
        all.push_back(fetch_attached(client, found.manifest,
                                     found.documents->all().at(found.manifest.digest), bundles));
    }
    for (const Attached& one : all)
        for (const std::string& problem : one.problems)
            log::verbose("a signature of {} is passed over: {}", client.reference().text(),
                         problem);
    std::erase_if(all, [](const Attached& one) { return one.empty(); });
    return all;
}

/// A mirror may have images alone.
std::vector<Attached> attached_elsewhere(const RegistryClient& asked, const Found& found,
                                         SignaturesWanted wanted) {
    for (const auto& endpoint : endpoints_of(asked.reference(), registry_rules())) {
        if (endpoint.host == asked.endpoint().host &&
            endpoint.repository == asked.endpoint().repository)
            continue;
        try {
            RegistryClient client(endpoint, asked.reference(), asked.access(), "pull");
            auto attached = fetch_attached(client, found, wanted);
            if (!attached.empty()) return attached;
        } catch (const Error& error) {
            log::verbose("{} gives no signatures: {}", endpoint.host, error.message());
        }
    }
    return {};
}

}  // namespace

size_t send_attached(RegistryClient& client, const BlobSource& blobs,
                     const std::vector<Descriptor>& entries,
                     const std::vector<Descriptor>& manifests) {
    size_t count = 0;
    for (const Descriptor& manifest : manifests) {
        const Attached attached = attached_to(blobs, entries, manifest);
        if (attached.empty()) continue;
        send_attached(client, attached);
        count += count_of(attached);
    }
    return count;
}

void bring_signatures(RegistryClient& client, const Found& found, const Store& store,
                      SignaturesWanted wanted) {
    if (wanted == SignaturesWanted::none) return;
    try {
        auto attached = fetch_attached(client, found, wanted);
        if (attached.empty() && wanted != SignaturesWanted::tag)
            attached = attached_elsewhere(client, found, wanted);
        if (attached.empty()) return;
        put_attached(store, attached);
        for (const Attached& one : attached)
            log::verbose("{} signatures of {} are kept with it", count_of(one),
                         one.subject.digest.text());
    } catch (Error& error) {
        if (is_read_only(error) || error.kind() == ErrorKind::permission) {
            log::verbose("signatures cannot be kept: {}", error.message());
            return;  // who needs one looks whether the store has it
        }
        if (wanted == SignaturesWanted::required) {
            error.note(fmt::format("while asking for the signatures of {}, which are required here",
                                   slipway::quoted(client.reference().text())));
            throw;
        }
        log::verbose("the signatures of {} cannot be had: {}", client.reference().text(),
                     error.message());
    }
}

SignatureReport sign_in_registry(const std::string& text, const SigningKey& key,
                                 const RegistryAccess& access) {
    const RegistryReference reference = parse_registry_reference(text);
    RegistryClient client = client_for_writing(reference, access);
    const Found found = named_by(client);
    Attached attached;
    attached.subject = found.named;
    add_signature(attached, reference.name(), key);
    send_attached(client, attached);
    SignatureReport report;
    report.digest = found.named.digest;
    report.content_bytes = found.named.size_bytes;
    report.signers = {"key " + key.id().text()};
    return report;
}

SignatureReport verify_in_registry(const std::string& text, const TrustedKeys& trusted,
                                   const RegistryAccess& access) {
    const RegistryReference reference = parse_registry_reference(text);
    return at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
        RegistryClient client(endpoint, reference, access, "pull");
        const Found found = named_by(client);
        const Attached attached = fetch_attached(client, found.named, text_of(found), true);
        SignatureReport report = judge_attached(
            {attached}, trusted, slipway::quoted(reference.text()),
            fmt::format("sign it: slipway sign docker://{} --key KEY.pem", reference.text()));
        report.content_bytes = found.named.size_bytes;
        report.layers_checked = false;
        return report;
    });
}

size_t count_signatures(const OciImage& image) {
    size_t count = 0;
    for (const Attached& attached : attached_to(image)) count += count_of(attached);
    return count;
}

SentSignatures push_signatures(const OciImage& image, const std::string& text, const Digest& pushed,
                               const RegistryAccess& access) {
    SentSignatures result;
    const auto found = attached_to(image);
    if (found.empty()) return result;
    const RegistryReference reference = parse_registry_reference(text);
    RegistryClient client = client_for_writing(reference, access);
    for (const Attached& attached : found) {
        if (attached.subject.digest != pushed) {
            result.left_behind.push_back(attached.subject.digest);
            continue;
        }
        send_attached(client, attached);
        result.sent += count_of(attached);
    }
    return result;
}

}  // namespace slipway::image
