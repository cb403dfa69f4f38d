// Lists and adds what refers to a manifest in a registry.
// Must not: lose what others have put under the same tag, or judge what it lists.
#include "referrers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "../trust/attached.hpp"
#include "documents.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"

namespace slipway::image {
namespace {

constexpr int kMostPages = 100;
constexpr size_t kMostReferrers = 10'000;
constexpr int kMostWritings = 6;

HttpRequest request_for(const std::string& url) {
    HttpRequest request;
    request.url = url;
    request.headers = {kAccepted};
    return request;
}

/// The address in `Link: <...>; rel="next"`; "" on the last page. Source: RFC 8288.
std::string next_page(const HttpResponse& response) {
    const std::string link = response.header("link");
    const size_t open = link.find('<'), close = link.find('>', open);
    if (open == std::string::npos || close == std::string::npos) return {};
    const std::string relation = link.substr(close);
    if (relation.find("rel=\"next\"") == std::string::npos &&
        relation.find("rel=next") == std::string::npos)
        return {};
    return link.substr(open + 1, close - open - 1);
}

/// What a registry without the interface answers; the specification says 404.
bool has_no_referrers(long status) {
    return status == 400 || status == 404 || status == 405 || status == 501;
}

std::string type_of(const Json& json) {
    return json_string(json, "artifactType", "the list of referrers");
}

/// Some clients list what has an empty config by the type of that: the manifest says more.
void complete_type(RegistryClient& client, Descriptor& referrer) {
    const std::string told = type_of(referrer.json);
    if (!told.empty() && told != kEmptyType) return;
    try {
        const Json manifest =
            parse_json(read_small_blob(client, referrer, true), "the list of referrers");
        const std::string type = manifest.is_object() ? type_of(manifest) : "";
        if (!type.empty()) referrer.json["artifactType"] = type;
    } catch (const Error& error) {
        log::verbose("{} cannot be read: {}", referrer.digest.text(), error.message());
    }
}

/// std::nullopt where the registry has no such interface.
std::optional<std::vector<Descriptor>> ask_for_referrers(RegistryClient& client,
                                                         const Digest& subject,
                                                         const std::string& artifact_type) {
    const std::string asked = client.path("referrers/" + subject.text());
    std::string url = asked;
    if (!artifact_type.empty()) url += "?artifactType=" + percent_encoded(artifact_type);
    std::vector<Descriptor> found;
    for (int page = 0; page < kMostPages; ++page) {
        const HttpResponse response = client.ask(request_for(url));
        if (page == 0 && has_no_referrers(response.status)) return std::nullopt;
        if (!response.success())
            throw client.refused(response, "the registry does not tell what refers to an image");
        const Json index = parse_foreign(response.body);
        // Something before the registry may answer every path, with a page for people.
        if (page == 0 && (!index.is_object() || !index.contains("manifests"))) return std::nullopt;
        for (Descriptor& one : parse_index(index, "the list of referrers"))
            if (found.size() < kMostReferrers) found.push_back(std::move(one));
        const std::string next = next_page(response);
        if (next.empty()) return found;
        url = resolve_url(page == 0 ? client.absolute(asked) : url, next);
    }
    throw Error(ErrorKind::io,
                fmt::format("{} lists referrers without an end", client.endpoint().host))
        .hint("ask its administrator");
}

}  // namespace

std::optional<TaggedText> find_manifest(RegistryClient& client, const std::string& tag) {
    const HttpResponse response = client.ask(request_for(client.path("manifests/" + tag)));
    if (response.status == 404) return std::nullopt;
    if (!response.success())
        throw client.refused(response,
                             fmt::format("{} does not give {}", client.endpoint().host, tag));
    const std::string type = response.header("content-type");
    return TaggedText{response.body, type.substr(0, type.find(';'))};
}

std::vector<Descriptor> list_referrers(RegistryClient& client, const Digest& subject,
                                       const std::string& artifact_type) {
    auto found = ask_for_referrers(client, subject, artifact_type);
    if (!found) {
        log::verbose("{} has no referrers interface; looking at the tag {}", client.endpoint().host,
                     referrers_tag(subject));
        found.emplace();
        if (const auto list = find_manifest(client, referrers_tag(subject)))
            *found = parse_index(parse_json(list->text, "the list of referrers"),
                                 "the list of referrers");
    }
    return std::move(*found);
}

std::vector<Descriptor> list_cosign_tags(RegistryClient& client, const Digest& subject) {
    std::vector<Descriptor> found;
    for (const char* kind : {".sig", ".att", ".sbom"}) {
        const std::string tag = referrers_tag(subject) + kind;
        const auto manifest = find_manifest(client, tag);
        if (!manifest) continue;
        Descriptor descriptor;
        descriptor.media_type = manifest->media_type;
        descriptor.digest = sha256(manifest->text);
        descriptor.size_bytes = manifest->text.size();
        descriptor.json = to_json(descriptor);
        descriptor.tag = tag;
        found.push_back(descriptor);
    }
    return found;
}

std::vector<Referrer> referrers_of(const std::string& text, const std::string& artifact_type,
                                   const RegistryAccess& access) {
    const RegistryReference reference = parse_registry_reference(text);
    return at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
        RegistryClient client(endpoint, reference, access, "pull");
        const Digest subject = Finder(client, nullptr).find_named().named.digest;
        auto found = list_referrers(client, subject, artifact_type);
        for (Descriptor& one : found) complete_type(client, one);
        if (!artifact_type.empty())
            std::erase_if(found,
                          [&](const auto& one) { return type_of(one.json) != artifact_type; });
        if (artifact_type.empty())
            for (Descriptor& one : list_cosign_tags(client, subject))
                found.push_back(std::move(one));
        std::vector<Referrer> list;
        for (const Descriptor& one : found)
            list.push_back(
                {one.digest, one.media_type, type_of(one.json), one.tag, one.size_bytes});
        return list;
    });
}

void change_tag(RegistryClient& client, const std::string& tag, const std::string& media_type,
                const std::function<std::string(const std::string& text)>& change) {
    for (int writings = 0;; ++writings) {
        const auto there = find_manifest(client, tag);
        const std::string text = change(there ? there->text : "");
        if (text.empty()) return;
        if (writings == kMostWritings)
            throw Error(ErrorKind::busy, fmt::format("others go on changing {} in {}", tag,
                                                     client.reference().name()))
                .hint("try again later");
        // Not in step with whoever is in the way.
        if (writings > 0) std::this_thread::sleep_for(retry_delay(writings));
        HttpRequest request;
        request.method = "PUT";
        request.url = client.path("manifests/" + tag);
        request.headers = {"Content-Type: " + media_type};
        request.body = text;
        const HttpResponse response = client.send(std::move(request));
        // Debian's docker-registry was seen to say so where two write a tag at once.
        const bool mixed_up = response.status == 400 &&
                              response.body.find("DIGEST_INVALID") != std::string::npos &&
                              writings + 1 < kMostWritings;
        if (!response.success() && !mixed_up)
            throw client.refused(response, fmt::format("{} was not taken", tag));
    }
}

void put_referrer(RegistryClient& client, const Digest& subject, const Descriptor& referrer,
                  const std::string& manifest) {
    HttpRequest request;
    request.method = "PUT";
    request.url = client.path("manifests/" + referrer.digest.text());
    request.headers = {"Content-Type: " + referrer.media_type};
    request.body = manifest;
    const HttpResponse response = client.send(std::move(request));
    if (!response.success())
        throw client.refused(response, "a manifest that refers to the image was not taken");
    if (!response.header("oci-subject").empty()) return;
    change_tag(client, referrers_tag(subject), kIndexType, [&](const std::string& text) {
        const Json old = text.empty() ? Json() : parse_json(text, "the list of referrers");
        if (!text.empty() && (!old.is_object() || !old.contains("manifests")))
            throw Error(ErrorKind::conflict,
                        fmt::format("the tag {} of {} is no list of referrers",
                                    referrers_tag(subject), client.reference().name()))
                .hint("somebody uses that tag for something else: have it removed");
        const auto there = parse_index(old.is_object() ? old : Json::object(), "referrers");
        const bool listed = std::any_of(there.begin(), there.end(), [&](const auto& one) {
            return one.digest == referrer.digest;
        });
        return listed ? std::string() : referrers_index(old, {referrer});
    });
}

void put_small_blob(RegistryClient& client, const std::string& text) {
    const Digest digest = sha256(text);
    HttpRequest head;
    head.method = "HEAD";
    head.url = client.path("blobs/" + digest.text());
    if (client.send(std::move(head)).success()) return;
    HttpRequest begin;
    begin.method = "POST";
    begin.url = client.path("blobs/uploads/");
    const std::string asked = client.absolute(begin.url);
    const HttpResponse place = client.send(std::move(begin));
    if (place.status != 202 || place.header("location").empty())
        throw client.refused(place, fmt::format("{} takes no upload", client.endpoint().host));
    const std::string url = resolve_url(asked, place.header("location"));
    HttpRequest put;
    put.method = "PUT";
    put.url = url + (url.find('?') == std::string::npos ? "?" : "&") +
              "digest=" + percent_encoded(digest.text());
    put.headers = {"Content-Type: application/octet-stream"};
    put.body = text;
    const HttpResponse response = client.send(std::move(put));
    if (!response.success())
        throw client.refused(response, fmt::format("{} was not taken", digest.text()));
}

std::string read_small_blob(RegistryClient& client, const Descriptor& descriptor,
                            bool is_manifest) {
    const HttpResponse response = client.ask(request_for(
        client.path((is_manifest ? "manifests/" : "blobs/") + descriptor.digest.text())));
    if (!response.success())
        throw client.refused(response, fmt::format("{} is missing", descriptor.digest.text()));
    if (response.body.size() != descriptor.size_bytes || sha256(response.body) != descriptor.digest)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} sent something else than {}", client.endpoint().host,
                                descriptor.digest.text()))
            .hint("try again; if it stays so, the registry or a proxy before it is damaged");
    return response.body;
}

}  // namespace slipway::image
