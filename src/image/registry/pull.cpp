// Pulls images from registries into the store.
// Must not: name an image before all of it is there.
#include <algorithm>

#include "../oci/model.hpp"
#include "blobs.hpp"
#include "documents.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/registry.hpp"

namespace slipway::image {
namespace {

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
    const OciImage wanted =
        read_image(found.documents, found.manifest, slipway::quoted(reference.text()));
    if (auto image = stored(name, store);
        image && image->manifest_digest == found.manifest.digest) {
        log::verbose("{} is in the store and unchanged", reference.text());
        return {std::move(*image), name, 0};
    }
    const uint64_t fetched = found.fetched_bytes + fetch_layers(client, wanted.layers, store);
    for (const auto& [digest, text] : found.documents->all()) store.add_document(text);
    return {store.name_image(name, found.manifest.digest, found.manifest.media_type), name,
            fetched};
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
        const Found found = Finder(client, nullptr).find();
        return read_image(found.documents, found.manifest, slipway::quoted(reference.text()));
    });
}

}  // namespace slipway::image
