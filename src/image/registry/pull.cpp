// Pulls images and artifacts from registries into the store.
// Must not: name one before all of it is there.
#include <fmt/format.h>

#include "../artifact/model.hpp"
#include "../oci/model.hpp"
#include "../store/use.hpp"
#include "blobs.hpp"
#include "documents.hpp"
#include "signatures.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/registry.hpp"
#include "slipway/image/signing.hpp"

namespace slipway::image {
namespace {

std::vector<Layer> blobs_of(const Content& content) {
    return content.image ? content.image->layers : blobs_of(*content.artifact);
}

const Digest& manifest_of(const Content& content) {
    return content.image ? content.image->manifest_digest : content.artifact->manifest_digest;
}

/// What the store has under a name, if all of it is there.
std::optional<Content> stored(const std::string& name, const Store& store) {
    auto content = find_content(store, name);
    for (const Layer& layer : content ? blobs_of(*content) : std::vector<Layer>())
        if (!store.has_blob(layer.digest)) return std::nullopt;
    return content;
}

PullResult result_of(Content content, const std::string& name, uint64_t fetched_bytes) {
    PullResult result;
    if (content.image) result.image = std::move(*content.image);
    result.artifact = std::move(content.artifact);
    result.name = name;
    result.downloaded_bytes = fetched_bytes;
    return result;
}

/// An index names many images by one digest, but of these the store has one, and not always the one
/// that would be chosen.
bool is_of_platform(const Content& content, const std::string& platform) {
    return !content.image ||
           is_exactly_for(content.image->config, platform.empty() ? host_platform() : platform);
}

bool serves(const Content& content, const std::string& platform) {
    return !content.image ||
           is_for(content.image->config, platform.empty() ? host_platform() : platform);
}

void check(const Content& content, const PullOptions& options) {
    if (options.check) options.check(content);
}

[[noreturn]] void no_files(const RegistryReference& reference) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is an image of layers, not an artifact: it is no file",
                            slipway::quoted(reference.text())))
        .note("requested by: --output")
        .hint(fmt::format("make a file of it: slipway convert docker://{} FILE.sqfs",
                          reference.text()));
}

/// Where a pull goes: into the store under a name, or, of artifacts only, without one.
struct Target {
    std::string name;
    std::vector<Digest>* blobs = nullptr;  ///< if given, filled with all that it is made of
};

/// Fetch what the store lacks.
PullResult pull_from(const RegistryEndpoint& endpoint, const RegistryReference& reference,
                     const Target& target, Store& store, const PullOptions& options) {
    const std::string& name = target.name;
    RegistryClient client(endpoint, reference, options.access, "pull");
    const std::string subject = slipway::quoted(reference.text());
    const Found found = Finder(client, &store).find(options.platform);
    Content wanted = read_content(found.documents, found.manifest, subject, options.platform);
    check(wanted, options);
    if (auto there = name.empty() ? std::nullopt : stored(name, store);
        there && manifest_of(*there) == found.manifest.digest) {
        log::verbose("{} is in the store and unchanged", reference.text());
        // What is run again and again does not ask each time whether it was signed meanwhile.
        if (there->image && (!options.stored_will_do || options.signatures > SignaturesWanted::tag))
            bring_signatures(client, found, store, options.signatures);
        return result_of(std::move(*there), name, 0);
    }
    store.begin_use();  // from here on, nobody deletes a layer that is there already
    const uint64_t fetched = found.fetched_bytes + fetch_layers(client, blobs_of(wanted), store);
    for (const auto& [digest, text] : found.documents->all()) store.add_document(text);
    if (target.blobs != nullptr) {
        for (const auto& document : found.documents->all()) target.blobs->push_back(document.first);
        for (const Layer& blob : blobs_of(wanted)) target.blobs->push_back(blob.digest);
    }
    if (wanted.image) bring_signatures(client, found, store, options.signatures);
    const auto in_store = open_layout_blobs(join_path(store.directory(), "oci"));
    if (wanted.image)
        wanted.image = store.name_image(name, found.manifest.digest, found.manifest.media_type);
    else if (!name.empty())
        name_artifact(store, name, *wanted.artifact);
    if (wanted.artifact) wanted.artifact->blobs = in_store;
    return result_of(std::move(wanted), name, fetched);
}

/// `blobs` gets what the store was given. The store is used by nobody any more when this returns.
SaveResult fetch_and_save(const RegistryReference& reference, const std::string& output,
                          const std::string& directory, const PullOptions& options,
                          std::vector<Digest>& blobs) {
    Store store = Store::open(directory);
    const std::string name = options.name.empty() ? "" : normalize_stored_name(options.name);
    const PullResult pulled = at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
        return pull_from(endpoint, reference, {name, &blobs}, store, options);
    });
    SaveResult result;
    result.files = save_artifact(*pulled.artifact, output);
    result.manifest_digest = pulled.artifact->manifest_digest;
    result.downloaded_bytes = pulled.downloaded_bytes;
    return result;
}

}  // namespace

PullResult pull_image(const std::string& text, Store& store, const PullOptions& options) {
    const RegistryReference reference = parse_registry_reference(text);
    const std::string name =
        options.name.empty() ? reference.stored_name() : normalize_stored_name(options.name);
    const std::string pinned = reference.stored_name();
    if (!reference.digest.empty() && name == pinned)
        if (auto content = stored(name, store);
            content && is_of_platform(*content, options.platform) &&
            (options.signatures == SignaturesWanted::none || !content->image ||
             (options.stored_will_do && options.signatures == SignaturesWanted::tag))) {
            check(*content, options);
            return result_of(std::move(*content), name, 0);
        }
    try {
        return at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
            return pull_from(endpoint, reference, {name}, store, options);
        });
    } catch (const Unreachable& error) {
        const bool exact = !reference.digest.empty() && name == pinned;
        auto content = options.stored_will_do || exact ? stored(name, store) : std::nullopt;
        if (!content || !serves(*content, options.platform)) throw;
        check(*content, options);
        if (!exact) log::warning("{}; taking {} as it was pulled before", error.message(), name);
        return result_of(std::move(*content), name, 0);
    }
}

SaveResult pull_files(const std::string& text, const std::string& output, Store& store,
                      const PullOptions& options) {
    const RegistryReference reference = parse_registry_reference(text);
    PullOptions checked = options;
    checked.check = [&](const Content& content) {
        if (!content.artifact) no_files(reference);
        check(content, options);
        check_output(*content.artifact, output);
    };
    std::vector<Digest> blobs;
    const auto forget = [&] {
        if (options.name.empty()) delete_unnamed(store, blobs);
    };
    try {
        SaveResult result = fetch_and_save(reference, output, store.directory(), checked, blobs);
        forget();
        return result;
    } catch (...) {
        forget();
        throw;
    }
}

std::string stored_name_of(const std::string& reference) {
    return parse_registry_reference(reference).stored_name();
}

RegistryFacts look_at_reference(const std::string& text, const std::string& platform,
                                const RegistryAccess& access) {
    const RegistryReference reference = parse_registry_reference(text);
    return at_each_endpoint(reference, [&](const RegistryEndpoint& endpoint) {
        RegistryClient client(endpoint, reference, access, "pull");
        Finder finder(client, nullptr);
        const Found found = platform.empty() ? finder.look() : finder.find(platform);
        RegistryFacts facts;
        facts.index_digest = found.index_digest;
        for (const Descriptor& item : found.in_index)
            if (!item.platform.empty() && !is_artifact(item))
                facts.platforms.push_back({item.platform, item.digest});
        if (!found.manifest.digest.empty())
            facts.content =
                read_content(found.documents, found.manifest, slipway::quoted(reference.text()));
        return facts;
    });
}

}  // namespace slipway::image
