// Pulls images from registries into the store.
// Must not: name an image before all of it is there.
#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "../oci/model.hpp"
#include "blobs.hpp"
#include "client.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"
#include "slipway/image/registry.hpp"

namespace slipway::image {
namespace {

constexpr const char* kAccepted =
    "Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json";
constexpr int kMostIndexes = 8;

/// Manifests and configs, which are small, as blobs in memory.
class Documents : public BlobSource {
 public:
    void add(const Digest& digest, std::string text) { texts_[digest] = std::move(text); }
    const std::map<Digest, std::string>& all() const { return texts_; }
    bool has(const Digest& digest) const { return texts_.contains(digest); }

    UniqueFd open_blob(const Digest& digest) const override {
        const auto found = texts_.find(digest);
        if (found == texts_.end()) {
            throw Error(ErrorKind::not_found,
                        fmt::format("the blob {} was not fetched", digest.text()))
                .hint("pull the image: slipway pull REFERENCE");
        }
        UniqueFd fd = sys::memfd_create("document");
        sys::pwrite_all(fd.get(), found->second.data(), found->second.size(), 0, digest.text());
        return fd;
    }

 private:
    std::map<Digest, std::string> texts_;
};

/// What a registry says of an image.
struct Found {
    OciImage image;
    Descriptor manifest;
    std::shared_ptr<Documents> documents;
    uint64_t fetched_bytes = 0;
};

class Finder {
 public:
    /// `store` is asked first for what has a digest; it may be null.
    Finder(RegistryClient& client, const Store* store)
        : client_(client), store_(store), subject_(slipway::quoted(client.reference().text())) {}

    Found find() {
        Descriptor manifest = top();
        for (int depth = 0; is_index(manifest); ++depth) {
            if (depth == kMostIndexes)
                throw Error(ErrorKind::invalid_image,
                            fmt::format("{} nests indexes more than {} deep", subject_, depth));
            auto inner = parse_index(parse(manifest.digest), subject_);
            for (Descriptor& item : inner) item.tag.clear();
            manifest = choose_image(inner, "", host_platform(), subject_);
            document("manifests/", manifest);
        }
        const Json json = parse(manifest.digest);
        if (json.is_object() && json.contains("config"))
            document("blobs/", parse_descriptor(json["config"], subject_));
        Found found{read_image(documents_, manifest, subject_), manifest, documents_, fetched_};
        return found;
    }

 private:
    Json parse(const Digest& digest) const {
        return parse_json(documents_->all().at(digest), "the manifest of " + subject_);
    }

    bool is_index(const Descriptor& descriptor) const {
        if (is_index_type(descriptor.media_type)) return true;
        const Json json = parse(descriptor.digest);
        return json.is_object() && json.contains("manifests") && !json.contains("config");
    }

    bool from_store(const Digest& digest) {
        if (store_ == nullptr || !store_->has_blob(digest)) return false;
        std::string text = read_all(store_->open_blob(digest).get(), digest.text());
        if (sha256(text) != digest) return false;
        documents_->add(digest, std::move(text));
        return true;
    }

    /// What the reference names: the one document whose digest may be unknown.
    Descriptor top() {
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
        fetched_ += response.body.size();
        documents_->add(descriptor.digest, response.body);
        return descriptor;
    }

    void document(const std::string& kind, const Descriptor& descriptor) {
        if (documents_->has(descriptor.digest) || from_store(descriptor.digest)) return;
        HttpRequest request;
        request.url = client_.path(kind + descriptor.digest.text());
        if (kind == "manifests/") request.headers = {kAccepted};
        const HttpResponse response = client_.send(std::move(request));
        if (!response.success())
            throw client_.refused(response, fmt::format("a part of {} is missing", subject_))
                .hint("push the image again, or pull another tag");
        if (const Digest digest = sha256(response.body); digest != descriptor.digest)
            wrong_digest(descriptor.digest.text(), digest);
        fetched_ += response.body.size();
        documents_->add(descriptor.digest, response.body);
    }

    [[noreturn]] void wrong_digest(const std::string& expected, const Digest& found) const {
        throw Error(ErrorKind::invalid_image, fmt::format("{} sent something else than {}",
                                                          client_.endpoint().host, expected))
            .note(fmt::format("its digest is {}", found.text()))
            .note(fmt::format("while asking for {}", subject_))
            .hint("try again; if it stays so, the registry or a proxy before it is damaged");
    }

    [[noreturn]] void no_such_image(const HttpResponse& response) {
        Error error(ErrorKind::not_found,
                    fmt::format("{} has no image {}", client_.endpoint().host, subject_));
        const auto tags = near_tags();
        if (!tags.empty()) error.note(fmt::format("tags there: {}", fmt::join(tags, ", ")));
        error.note(fmt::format("the registry answered HTTP {}", response.status));
        throw error.hint("check the repository and the tag");
    }

    /// Some tags of the repository, those most alike first; none if the registry tells none.
    std::vector<std::string> near_tags() {
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

    RegistryClient& client_;
    const Store* store_;
    std::string subject_;
    std::shared_ptr<Documents> documents_ = std::make_shared<Documents>();
    uint64_t fetched_ = 0;
};

bool is_whole(const OciImage& image, const Store& store) {
    return std::all_of(image.layers.begin(), image.layers.end(),
                       [&](const Layer& layer) { return store.has_blob(layer.digest); });
}

/// What the store has under a name, if all of it is there.
std::optional<OciImage> stored(const std::string& name, const Store& store) {
    auto image = store.find(name);
    if (image && !is_whole(*image, store)) image.reset();
    return image;
}

PullResult pull_from(const RegistryEndpoint& endpoint, const RegistryReference& reference,
                     const std::string& name, Store& store, const PullOptions& options) {
    RegistryClient client(endpoint, reference, options.access, "pull");
    const Found found = Finder(client, &store).find();
    if (auto image = stored(name, store);
        image && image->manifest_digest == found.manifest.digest) {
        log::verbose("{} is in the store and unchanged", reference.text());
        return {std::move(*image), name, 0};
    }
    const uint64_t fetched = found.fetched_bytes + fetch_layers(client, found.image.layers, store);
    for (const auto& [digest, text] : found.documents->all()) store.add_document(text);
    return {store.name_image(name, found.manifest.digest, found.manifest.media_type), name,
            fetched};
}

/// Try the places that serve a reference, one after another.
template <typename Action>
auto at_each_endpoint(const RegistryReference& reference, const Action& action) {
    const auto endpoints = endpoints_of(reference, registry_rules());
    for (size_t i = 0;; ++i) {
        try {
            return action(endpoints[i]);
        } catch (const Error& error) {
            if (i + 1 == endpoints.size()) throw;
            log::info("the mirror {} does not help: {}", endpoints[i].host, error.message());
        }
    }
}

}  // namespace

PullResult pull_image(const std::string& text, Store& store, const PullOptions& options) {
    const RegistryReference reference = parse_registry_reference(text);
    const std::string name =
        options.name.empty() ? reference.stored_name() : normalize_stored_name(options.name);
    const std::string pinned = reference.stored_name();
    if (!reference.digest.empty() && name == pinned)
        if (auto image = stored(name, store)) return {std::move(*image), name, 0};
    try {
        return at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
            return pull_from(endpoint, reference, name, store, options);
        });
    } catch (const Unreachable& error) {
        auto image = options.stored_will_do ? stored(name, store) : std::nullopt;
        if (!image) throw;
        log::warning("{}; taking {} as it was pulled before", error.message(), name);
        return {std::move(*image), name, 0};
    }
}

std::string stored_name_of(const std::string& reference) {
    return parse_registry_reference(reference).stored_name();
}

OciImage look_at_image(const std::string& text, const RegistryAccess& access) {
    const RegistryReference reference = parse_registry_reference(text);
    return at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
        RegistryClient client(endpoint, reference, access, "pull");
        return Finder(client, nullptr).find().image;
    });
}

}  // namespace slipway::image
