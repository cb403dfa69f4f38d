// Fetches the documents of an image from a registry: the way from a reference to one manifest.
// Must not: fetch a layer, or believe a document before its digest was found right.
#include "documents.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"

namespace slipway::image {

UniqueFd Documents::open_blob(const Digest& digest) const {
    const auto found = texts_.find(digest);
    if (found == texts_.end()) {
        throw Error(ErrorKind::not_found, fmt::format("the blob {} was not fetched", digest.text()))
            .hint("pull the image: slipway pull REFERENCE");
    }
    UniqueFd fd = sys::memfd_create("document");
    sys::pwrite_all(fd.get(), found->second.data(), found->second.size(), 0, digest.text());
    return fd;
}

Finder::Finder(RegistryClient& client, const Store* store)
    : client_(client), store_(store), subject_(slipway::quoted(client.reference().text())) {}

Found Finder::find_named() {
    found_.named = found_.manifest = top();
    return found_;
}

Found Finder::find(const std::string& platform) { return follow(find_named().named, platform); }

Found Finder::look() {
    const Descriptor named = top();
    found_.named = named;
    const std::string host = host_platform();
    if (is_index(named, parse(named.digest))) {
        const auto list = take_index(named);
        const bool serves = std::any_of(list.begin(), list.end(), [&](const Descriptor& item) {
            return !is_artifact(item) &&
                   (item.platform.empty() || serves_platform(item.platform, host));
        });
        if (!serves) return found_;
    }
    return follow(named, "");
}

/// An index's list; the first one is what the reference names.
std::vector<Descriptor> Finder::take_index(const Descriptor& index) {
    auto list = parse_index(parse(index.digest), subject_);
    for (Descriptor& item : list) item.tag.clear();
    if (found_.index_digest.empty()) {
        found_.index_digest = index.digest;
        found_.in_index = list;
    }
    return list;
}

Found Finder::follow(Descriptor manifest, const std::string& platform) {
    for (int depth = 0; is_index(manifest, parse(manifest.digest)); ++depth) {
        if (depth == kMaxIndexDepth)
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{} nests indexes more than {} deep", subject_, depth));
        manifest = choose_in_index(take_index(manifest), platform, subject_);
        document("manifests/", manifest);
    }
    const Json json = parse(manifest.digest);
    if (json.is_object() && json.contains("config"))
        document("blobs/", parse_descriptor(json["config"], subject_));
    found_.manifest = manifest;
    return found_;
}

Json Finder::parse(const Digest& digest) const {
    return parse_json(found_.documents->all().at(digest), "the manifest of " + subject_);
}

bool Finder::from_store(const Digest& digest) {
    if (store_ == nullptr || !store_->has_blob(digest)) return false;
    std::string text = read_all(store_->open_blob(digest).get(), digest.text());
    if (sha256(text) != digest) return false;
    found_.documents->add(digest, std::move(text));
    return true;
}

/// What the reference names: the one document whose digest may be unknown.
Descriptor Finder::top() {
    const RegistryReference& reference = client_.reference();
    HttpRequest request;
    request.url = client_.path("manifests/" + reference.selector());
    request.headers = {kAccepted};
    const HttpResponse response = client_.send(std::move(request));
    if (response.status == 404) no_such_image(response);
    if (!response.success())
        throw client_.refused(response, fmt::format("cannot get the manifest of {}", subject_));
    Descriptor descriptor;
    descriptor.digest = sha256(response.body);
    descriptor.size_bytes = response.body.size();
    const std::string type = response.header("content-type");
    descriptor.media_type = type.substr(0, type.find(';'));
    const std::string told = response.header("docker-content-digest");
    const std::string expected = reference.digest.empty() ? told : reference.digest.text();
    if (!expected.empty() && expected != descriptor.digest.text())
        wrong_digest(expected, descriptor.digest);
    found_.fetched_bytes += response.body.size();
    found_.documents->add(descriptor.digest, response.body);
    return descriptor;
}

void Finder::document(const std::string& kind, const Descriptor& descriptor) {
    if (found_.documents->has(descriptor.digest) || from_store(descriptor.digest)) return;
    HttpRequest request;
    request.url = client_.path(kind + descriptor.digest.text());
    if (kind == "manifests/") request.headers = {kAccepted};
    const HttpResponse response = client_.send(std::move(request));
    if (!response.success())
        throw client_.refused(response, fmt::format("a part of {} is missing", subject_))
            .hint("push the image again, or pull another tag");
    if (const Digest digest = sha256(response.body); digest != descriptor.digest)
        wrong_digest(descriptor.digest.text(), digest);
    found_.fetched_bytes += response.body.size();
    found_.documents->add(descriptor.digest, response.body);
}

void Finder::wrong_digest(const std::string& expected, const Digest& found) const {
    throw Error(ErrorKind::invalid_image,
                fmt::format("{} sent something else than {}", client_.endpoint().host, expected))
        .note(fmt::format("its digest is {}", found.text()))
        .note(fmt::format("while asking for {}", subject_))
        .hint("try again; if it stays so, the registry or a proxy before it is damaged");
}

void Finder::no_such_image(const HttpResponse& response) {
    Error error(ErrorKind::not_found,
                fmt::format("{} has no image {}", client_.endpoint().host, subject_));
    const auto tags = near_tags();
    if (!tags.empty()) error.note(fmt::format("tags there: {}", fmt::join(tags, ", ")));
    error.note(fmt::format("the registry answered HTTP {}", response.status));
    throw error.hint("check the repository and the tag");
}

/// Some tags of the repository, those most alike first; none if the registry tells none.
std::vector<std::string> Finder::near_tags() {
    std::vector<std::string> tags;
    try {
        HttpRequest request;
        request.url = client_.path("tags/list?n=1000");
        const HttpResponse response = client_.send(std::move(request));
        if (!response.success()) return {};
        tags = json_strings(parse_json(response.body, "tags"), "tags", "tags");
    } catch (const Error& error) {
        log::verbose("the tags of {} cannot be listed: {}", subject_, error.message());
    }
    const std::string& wanted = client_.reference().tag;
    std::stable_sort(tags.begin(), tags.end(), [&](const auto& a, const auto& b) {
        return edit_distance(a, wanted) < edit_distance(b, wanted);
    });
    tags.resize(std::min<size_t>(tags.size(), 8));
    return tags;
}

}  // namespace slipway::image
