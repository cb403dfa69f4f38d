// Pushes images, artifacts and whole indexes to registries.
// Must not: send what the registry has, or name anything before all of it is there.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "../artifact/model.hpp"
#include "../oci/archive_blobs.hpp"
#include "../oci/model.hpp"
#include "client.hpp"
#include "signatures.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/registry.hpp"
#include "upload.hpp"

namespace slipway::image {
namespace {

/// Other repositories of the same host which, as the store knows, hold a layer or file.
std::map<Digest, std::string> repositories_with(const RegistryReference& reference,
                                                const Store& store) {
    std::map<Digest, std::string> found;
    const std::string host = reference.host + "/";
    for (const StoredImage& stored : store.list()) {
        if (!stored.name.starts_with(host)) continue;
        const size_t colon = stored.name.rfind(':');
        const std::string repository = stored.name.substr(host.size(), colon - host.size());
        if (repository == reference.repository) continue;
        const auto artifact = find_artifact(store, stored.name);
        for (const Layer& layer : artifact ? blobs_of(*artifact) : store.get(stored.name).layers)
            found.emplace(layer.digest, repository);
    }
    return found;
}

RegistryReference parse_target(const std::string& text) {
    RegistryReference reference = parse_registry_reference(text);
    if (!reference.digest.empty()) {
        throw Error(ErrorKind::usage, "an image is pushed to a tag, not to a digest")
            .hint(fmt::format("slipway push SOURCE docker://{}:TAG", reference.name()));
    }
    return reference;
}

/// One push under way: first blobs, then manifests, the one with the tag last.
class Push {
 public:
    Push(const std::string& text, const Store& store, const RegistryAccess& access)
        : reference_(parse_target(text)),
          elsewhere_(repositories_with(reference_, store)),
          // Mirrors are for reading.
          client_(endpoints_of(reference_, registry_rules()).back(), reference_, access,
                  "pull,push") {}

    /// Returns the bytes that were sent.
    uint64_t send(const BlobSource& source, const std::vector<Layer>& list) {
        std::vector<Digest> blobs;
        uint64_t total = 0, sent = 0;
        for (const Layer& blob : list) {
            if (std::find(blobs.begin(), blobs.end(), blob.digest) != blobs.end()) continue;
            blobs.push_back(blob.digest);
            total += blob.size_bytes;
        }
        for (const Digest& digest : blobs)
            if (const auto found = elsewhere_.find(digest); found != elsewhere_.end())
                client_.add_scope(fmt::format("repository:{}:pull", found->second));
        Progress progress("pushing " + reference_.text(), total, Progress::Unit::bytes);
        for (const Digest& digest : blobs) {
            const auto found = elsewhere_.find(digest);
            sent += upload_blob(client_, source, digest, progress,
                                found == elsewhere_.end() ? "" : found->second);
        }
        progress.finish();
        return sent;
    }

    /// Put a manifest under its digest, or under the tag.
    Digest put(const std::string& text, const std::string& media_type, bool tag) {
        const Digest digest = sha256(text);
        HttpRequest request;
        request.method = "PUT";
        request.url = client_.path("manifests/" + (tag ? reference_.tag : digest.text()));
        request.headers = {"Content-Type: " + media_type};
        request.body = text;
        const HttpResponse response = client_.send(std::move(request));
        if (!response.success()) throw client_.refused(response, "the manifest was not taken");
        return digest;
    }

    RegistryClient& client() { return client_; }

 private:
    RegistryReference reference_;
    std::map<Digest, std::string> elsewhere_;
    RegistryClient client_;
};

/// The image's manifest as it is, or one made for it.
std::pair<std::string, std::string> manifest_of(const OciImage& image) {
    if (!image.manifest_digest.empty()) {
        std::string text = read_all(image.blobs->open_blob(image.manifest_digest).get(),
                                    image.manifest_digest.text());
        const Json json = parse_json(text, "the manifest");
        return {text, json_string(json, "mediaType", "the manifest", kManifestType)};
    }
    Descriptor config;
    config.media_type = kConfigType;
    config.digest = image.config_digest;
    config.size_bytes = static_cast<uint64_t>(
        sys::fstat(image.blobs->open_blob(config.digest).get(), "the config").st_size);
    return {to_text(make_manifest(config, image.layers)), kManifestType};
}

/// All that an index or manifest leads to: blobs, and manifests in the order in which a registry
/// takes them, what is named by another before it.
struct Tree {
    std::vector<Layer> blobs;
    std::vector<std::pair<std::string, std::string>> manifests;  ///< text, media type
};

void gather(const BlobSource& source, const Descriptor& descriptor, std::string text,
            const std::string& subject, std::set<Digest>& seen, Tree& tree, int depth = 0) {
    if (depth > kMaxIndexDepth)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} nests indexes more than {} deep", subject, depth));
    if (!seen.insert(descriptor.digest).second) return;
    const Json json = parse_json(text, "a manifest of " + subject);
    for (const Descriptor& inner : parse_index(json, subject))
        gather(source, inner, read_blob(source, inner, subject), subject, seen, tree, depth + 1);
    const auto add = [&](const Json& blob) {
        const Descriptor found = parse_descriptor(blob, subject);
        tree.blobs.push_back({found.digest, {}, found.size_bytes, found.media_type});
    };
    if (json.contains("config")) add(json["config"]);
    for (const char* key : {"layers", "blobs"})
        if (json.contains(key) && json[key].is_array())
            for (const Json& blob : json[key]) add(blob);
    tree.manifests.emplace_back(std::move(text),
                                json_string(json, "mediaType", subject, descriptor.media_type));
}

std::vector<Descriptor> manifests_of(const Tree& tree) {
    std::vector<Descriptor> manifests;
    for (const auto& [text, media_type] : tree.manifests) {
        Descriptor manifest;
        manifest.media_type = media_type;
        manifest.digest = sha256(text);
        manifest.size_bytes = text.size();
        manifests.push_back(std::move(manifest));
    }
    return manifests;
}

/// What a tag leads to, or the layout's own index where its images stand there side by side.
Descriptor top_of(const std::string& index, const ImageRef& source, const std::string& subject) {
    const auto entries = parse_index(parse_json(index, subject), subject);
    std::vector<Descriptor> named;
    for (const Descriptor& entry : entries)
        if (source.name.empty() ? !is_attachment_tag(entry.tag) : entry.tag == source.name)
            named.push_back(entry);
    if (named.size() == 1) return named[0];
    const bool one_name = std::all_of(named.begin(), named.end(), [&](const Descriptor& entry) {
        return entry.tag == named[0].tag;
    });
    if (!named.empty() && one_name && named.size() == entries.size()) {
        Descriptor whole;
        whole.media_type = kIndexType;
        whole.digest = sha256(index);
        whole.size_bytes = index.size();
        return whole;
    }
    choose_image(entries, source.name, "", subject);  // says what is wrong
    throw Error(ErrorKind::unsupported, fmt::format("{} has more than what is to be pushed beside "
                                                    "several images of one name",
                                                    subject))
        .hint("copy it into a layout of its own first: skopeo copy --all");
}

}  // namespace

PushResult push_image(const OciImage& image, const std::string& text, const Store& store,
                      const RegistryAccess& access) {
    Push push(text, store, access);
    std::vector<Layer> blobs = image.layers;
    blobs.push_back({image.config_digest, {}, 0, {}});
    PushResult result;
    result.uploaded_bytes = push.send(*image.blobs, blobs);
    const auto [manifest, media_type] = manifest_of(image);
    result.manifest_digest = push.put(manifest, media_type, true);
    return result;
}

PushResult push_artifact(const Artifact& artifact, const std::string& text, const Store& store,
                         const RegistryAccess& access) {
    Push push(text, store, access);
    std::vector<Layer> blobs = blobs_of(artifact);
    blobs.push_back({artifact.config_digest, {}, 0, {}});
    PushResult result;
    result.uploaded_bytes = push.send(*artifact.blobs, blobs);
    const std::string manifest = read_all(artifact.blobs->open_blob(artifact.manifest_digest).get(),
                                          artifact.manifest_digest.text());
    result.manifest_digest = push.put(manifest, artifact.manifest_type, true);
    return result;
}

PushResult push_index(const ImageRef& source, const std::string& text, const Store& store,
                      const RegistryAccess& access, bool with_signatures) {
    const std::string subject = slipway::quoted(source.text);
    std::shared_ptr<const BlobSource> blobs;
    std::string index;
    if (source.kind == RefKind::oci_layout) {
        blobs = open_layout_blobs(source.path);
        index = read_file(join_path(source.path, "index.json"));
    } else if (source.kind == RefKind::oci_archive || source.kind == RefKind::archive) {
        std::tie(blobs, index) = open_archive_index(source.path);
    } else {
        throw Error(ErrorKind::unsupported, fmt::format("{} ({}) holds no images of several "
                                                        "platforms",
                                                        subject, to_string(source.kind)))
            .note("requested by: --all-platforms")
            .hint("oci:DIR[:TAG] and oci-archive:FILE[:TAG] do");
    }
    const Descriptor top = top_of(index, source, subject);
    Tree tree;
    std::set<Digest> seen;
    const bool whole = top.digest == sha256(index);
    gather(*blobs, top, whole ? index : read_blob(*blobs, top, subject), subject, seen, tree);
    Push push(text, store, access);
    PushResult result;
    result.uploaded_bytes = push.send(*blobs, tree.blobs);
    for (size_t i = 0; i < tree.manifests.size(); ++i)
        result.manifest_digest = push.put(tree.manifests[i].first, tree.manifests[i].second,
                                          i + 1 == tree.manifests.size());
    if (whole) tree.manifests.pop_back();  // no blob of the layout: nothing is about it
    if (with_signatures)
        result.signatures =
            send_attached(push.client(), *blobs, parse_index(parse_json(index, subject), subject),
                          manifests_of(tree));
    return result;
}

}  // namespace slipway::image
