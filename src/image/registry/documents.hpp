// What a registry has under a reference, without its layers: indexes, manifests, configs. Private
// to the image room.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../oci/model.hpp"
#include "client.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// The header that asks for a manifest or index in any form that we understand.
inline constexpr const char* kAccepted =
    "Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json";

/// Manifests and configs, which are small, as blobs in memory.
class Documents : public BlobSource {
 public:
    void add(const Digest& digest, std::string text) { texts_[digest] = std::move(text); }
    const std::map<Digest, std::string>& all() const { return texts_; }
    bool has(const Digest& digest) const { return texts_.contains(digest); }
    UniqueFd open_blob(const Digest& digest) const override;

 private:
    std::map<Digest, std::string> texts_;
};

/// A manifest, and all documents that led to it.
struct Found {
    Descriptor named;     ///< what the reference names: the manifest, or an index that leads to it
    Descriptor manifest;  ///< without a digest where the index has no such platform
    Digest index_digest;  ///< of what the reference names, where that is an index
    std::vector<Descriptor> in_index;  ///< what that index lists
    std::shared_ptr<Documents> documents = std::make_shared<Documents>();
    uint64_t fetched_bytes = 0;
};

/// Fetches documents, each checked against its digest.
class Finder {
 public:
    /// `store` is asked first for what has a digest; it may be null.
    Finder(RegistryClient& client, const Store* store);

    /// Fetch what the reference names, through indexes, to one manifest and its config. Throws:
    /// Error(not_found) with near tags, Error(unsupported) listing platforms, Error(invalid_image).
    Found find(const std::string& platform = {});
    /// The same; an index without this machine's platform is no error.
    Found look();
    /// Fetch the one document that the reference names.
    Found find_named();

 private:
    Json parse(const Digest& digest) const;
    bool from_store(const Digest& digest);
    Descriptor top();
    Found follow(Descriptor manifest, const std::string& platform);
    std::vector<Descriptor> take_index(const Descriptor& index);
    void document(const std::string& kind, const Descriptor& descriptor);
    [[noreturn]] void wrong_digest(const std::string& expected, const Digest& found) const;
    [[noreturn]] void no_such_image(const HttpResponse& response);
    std::vector<std::string> near_tags();

    RegistryClient& client_;
    const Store* store_;
    std::string subject_;
    Found found_;
};

/// Try the places that serve a reference, one after another: its mirrors, then itself.
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

}  // namespace slipway::image
