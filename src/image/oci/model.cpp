// Descriptors, indexes, the choice of one image among several, manifests.
// Must not: write, or open anything but blobs through a BlobSource.
#include "model.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

namespace slipway::image {
namespace {

constexpr const char* kDockerListType = "application/vnd.docker.distribution.manifest.list.v2+json";
constexpr const char* kDockerManifestType = "application/vnd.docker.distribution.manifest.v2+json";
constexpr const char* kDockerConfigType = "application/vnd.docker.container.image.v1+json";
constexpr uint64_t kDocumentLimitBytes = 16u << 20;

constexpr std::string_view kLayerTypes[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

std::string platform_of(const Json& json, const std::string& subject) {
    auto platform = json.find("platform");
    if (platform == json.end() || platform->is_null()) return {};
    return platform_name(json_string(*platform, "os", subject),
                         json_string(*platform, "architecture", subject),
                         json_string(*platform, "variant", subject));
}

/// Cosign keeps signatures, attestations and SBOMs under tags made of the image's digest; such a
/// tag alone lists what refers to the image; and an index lies beside the image taken from it.
bool is_cosign_tag(const std::string& tag) {
    constexpr size_t kDigestEnds = sizeof("sha256-") - 1 + 64;
    if (!tag.starts_with("sha256-") || tag.size() < kDigestEnds) return false;
    const std::string kind = tag.substr(kDigestEnds);
    return kind.empty() || kind == ".sig" || kind == ".att" || kind == ".sbom" || kind == ".index";
}

std::vector<std::string> tags_of(const std::vector<Descriptor>& manifests) {
    std::set<std::string> tags;
    for (const Descriptor& manifest : manifests) {
        if (!manifest.tag.empty()) tags.insert(manifest.tag);
    }
    return {tags.begin(), tags.end()};
}

Error& list_tags(Error& error, const std::vector<std::string>& tags) {
    if (tags.empty()) return error.note("its images have no tags");
    return error.note(fmt::format("tags there: {}", fmt::join(tags, ", ")));
}

/// Without a platform this machine's is taken, and of one image whatever it is for: whether it runs
/// is asked when it is run.
Descriptor choose_platform(const std::vector<Descriptor>& candidates, const std::string& platform,
                           const std::string& subject) {
    if (candidates.size() == 1 && (platform.empty() || candidates[0].platform.empty()))
        return candidates[0];
    const std::string wanted = platform.empty() ? host_platform() : platform;
    for (const std::string& name : platforms_for(wanted))
        for (const Descriptor& candidate : candidates)
            if (candidate.platform == name) return candidate;
    std::set<std::string> there;
    for (const Descriptor& candidate : candidates)
        if (!candidate.platform.empty()) there.insert(candidate.platform);
    Error error(ErrorKind::unsupported, fmt::format("{} holds no image for {}", subject, wanted));
    error.note(there.empty() ? "its images do not say for which platform they are"
                             : fmt::format("it has: {}", fmt::join(there, ", ")));
    if (!there.empty()) error.hint(fmt::format("choose one: --platform {}", *there.begin()));
    throw error;
}

Layer parse_layer(const Json& json, const std::string& subject) {
    Descriptor descriptor = parse_descriptor(json, subject);
    if (std::ranges::find(kLayerTypes, descriptor.media_type) == std::end(kLayerTypes)) {
        bool encrypted = descriptor.media_type.ends_with("+encrypted");
        throw Error(ErrorKind::unsupported, fmt::format("{} has a layer of type {}{}", subject,
                                                        slipway::quoted(descriptor.media_type),
                                                        encrypted ? ", which is encrypted" : ""))
            .note("tar layers, plain or compressed with gzip or zstd, are understood");
    }
    return {descriptor.digest, {}, descriptor.size_bytes, descriptor.media_type};
}

std::string platform_of(const ImageConfig& config) {
    return platform_name(config.os.empty() ? "linux" : config.os, config.architecture,
                         config.variant);
}

}  // namespace

Descriptor parse_descriptor(const Json& json, const std::string& subject) {
    if (!json.is_object()) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} holds a descriptor that is no object", subject));
    }
    Descriptor descriptor;
    descriptor.json = json;
    descriptor.media_type = json_string(json, "mediaType", subject);
    try {
        descriptor.digest = Digest::parse(json_string(json, "digest", subject));
    } catch (Error& error) {
        error.note(fmt::format("in {}", subject));
        throw;
    }
    auto size = json.find("size");
    if (size == json.end() || !size->is_number_unsigned()) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} has a descriptor without a size", subject));
    }
    descriptor.size_bytes = size->get<uint64_t>();
    descriptor.platform = platform_of(json, subject);
    descriptor.artifact_type = json_string(json, "artifactType", subject);
    if (auto notes = json.find("annotations"); notes != json.end() && notes->is_object()) {
        descriptor.tag = json_string(*notes, kRefNameAnnotation, subject);
    }
    return descriptor;
}

bool is_artifact(const Descriptor& descriptor) {
    return is_cosign_tag(descriptor.tag) || descriptor.platform == "unknown/unknown" ||
           !descriptor.artifact_type.empty();
}

bool is_for(const ImageConfig& config, const std::string& platform) {
    if (config.architecture.empty()) return true;
    const auto without_variant = [](const std::string& name) {
        return name.substr(0, name.find('/', name.find('/') + 1));
    };
    const std::string own = platform_of(config);
    if (!config.variant.empty() && without_variant(platform) != platform)
        return serves_platform(own, platform);
    return without_variant(own) == without_variant(platform);
}

bool is_exactly_for(const ImageConfig& config, const std::string& platform) {
    if (config.architecture.empty() || config.variant.empty()) return is_for(config, platform);
    return platform_of(config) == platform;
}

void require_platform(const ImageConfig& config, const std::string& platform,
                      const std::string& subject) {
    if (is_for(config, platform)) return;
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is an image for {}/{}{}{}, not for {}", subject, config.os,
                            config.architecture, config.variant.empty() ? "" : "/", config.variant,
                            platform))
        .note("requested by: --platform")
        .hint("leave --platform out to take it as it is");
}

Json to_json(const Descriptor& descriptor) {
    Json json{{"mediaType", descriptor.media_type},
              {"digest", descriptor.digest.text()},
              {"size", descriptor.size_bytes}};
    if (!descriptor.artifact_type.empty()) json["artifactType"] = descriptor.artifact_type;
    return json;
}

Json parse_foreign(std::string_view text) {
    try {
        return parse_json(text, "the document");
    } catch (const Error&) {
        return Json(Json::value_t::discarded);
    }
}

std::vector<Descriptor> parse_index(const Json& index, const std::string& subject) {
    if (!index.is_object()) {
        throw Error(ErrorKind::invalid_image, fmt::format("{} is not a JSON object", subject));
    }
    std::vector<Descriptor> list;
    auto manifests = index.find("manifests");
    if (manifests == index.end() || manifests->is_null()) return list;
    if (!manifests->is_array()) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{}: \"manifests\" is not a list", subject));
    }
    for (const Json& item : *manifests) list.push_back(parse_descriptor(item, subject));
    return list;
}

bool is_index_type(const std::string& media_type) {
    return media_type == kIndexType || media_type == kDockerListType;
}

Descriptor choose_image(const std::vector<Descriptor>& manifests, const std::string& tag,
                        const std::string& platform, const std::string& subject) {
    std::vector<Descriptor> images;
    for (const Descriptor& manifest : manifests) {
        if (!is_artifact(manifest)) images.push_back(manifest);
    }
    std::vector<std::string> tags = tags_of(images);
    if (!tag.empty()) {
        std::erase_if(images, [&](const Descriptor& image) { return image.tag != tag; });
        if (images.empty()) {
            Error error(ErrorKind::not_found, fmt::format("{} has no image with the tag {}",
                                                          subject, slipway::quoted(tag)));
            throw list_tags(error, tags);
        }
        return choose_platform(images, platform, subject);
    }
    if (images.empty()) {
        throw Error(ErrorKind::not_found, fmt::format("{} holds no image", subject));
    }
    bool one_name = tags.size() <= 1;
    bool all_named = std::all_of(images.begin(), images.end(),
                                 [](const Descriptor& image) { return !image.tag.empty(); });
    if (!one_name || (tags.size() == 1 && !all_named)) {
        Error error(ErrorKind::usage, fmt::format("{} holds several images", subject));
        list_tags(error, tags).hint("add :TAG to the reference to say which one");
        throw error;
    }
    return choose_platform(images, platform, subject);
}

Descriptor choose_in_index(std::vector<Descriptor> manifests, const std::string& platform,
                           const std::string& subject) {
    for (Descriptor& manifest : manifests) manifest.tag.clear();
    const Descriptor chosen = choose_image(manifests, "", platform, subject);
    if (!platform.empty() || chosen.platform.empty()) return chosen;
    return choose_image(manifests, "", host_platform(), subject);
}

std::string read_blob(const BlobSource& blobs, const Descriptor& descriptor,
                      const std::string& subject) {
    if (descriptor.size_bytes > kDocumentLimitBytes) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} says its document {} has {} bytes, more than any has", subject,
                                descriptor.digest.text(), descriptor.size_bytes));
    }
    UniqueFd fd = blobs.open_blob(descriptor.digest);
    std::string data = read_all(fd.get(), descriptor.digest.text(), kDocumentLimitBytes);
    if (data.size() != descriptor.size_bytes || sha256(data) != descriptor.digest) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the blob {} of {} is damaged", descriptor.digest.text(), subject))
            .note(fmt::format("its size is {} bytes, expected {}; its digest is {}", data.size(),
                              descriptor.size_bytes, sha256(data).text()))
            .hint("copy or pull the image again");
    }
    return data;
}

Manifest read_manifest(const BlobSource& blobs, Descriptor descriptor, const std::string& subject,
                       const std::string& platform) {
    for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
        Json json = parse_json(read_blob(blobs, descriptor, subject),
                               fmt::format("the manifest of {}", subject));
        if (!json.is_object()) {
            throw Error(ErrorKind::invalid_image,
                        fmt::format("the manifest of {} is not a JSON object", subject));
        }
        if (!is_index(descriptor, json)) return {std::move(descriptor), std::move(json)};
        descriptor = choose_in_index(parse_index(json, subject), platform, subject);
    }
    throw Error(ErrorKind::invalid_image,
                fmt::format("{} nests indexes more than {} deep", subject, kMaxIndexDepth));
}

bool is_index(const Descriptor& descriptor, const Json& document) {
    return is_index_type(descriptor.media_type) ||
           (document.is_object() && document.contains("manifests") && !document.contains("config"));
}

std::string artifact_type_of(const Json& manifest, const std::string& subject) {
    if (!manifest.is_object() || !manifest.contains("config")) return {};
    const std::string config = parse_descriptor(manifest["config"], subject).media_type;
    if (config == kConfigType || config == kDockerConfigType) return {};
    const std::string type = json_string(manifest, "artifactType", subject);
    return type.empty() ? config : type;
}

OciImage read_image(std::shared_ptr<const BlobSource> blobs, Descriptor descriptor,
                    const std::string& subject, const std::string& platform) {
    const Manifest found = read_manifest(*blobs, std::move(descriptor), subject, platform);
    const Json& manifest = found.json;
    if (manifest.contains("fsLayers")) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} has a Docker manifest of schema 1", subject))
            .hint("pull or save the image again with a current tool");
    }
    if (!manifest.contains("config") || !manifest.contains("layers") ||
        !manifest["layers"].is_array()) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the manifest of {} has no config or no layers", subject));
    }
    if (const std::string type = artifact_type_of(manifest, subject); !type.empty()) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is an artifact of type {}, not a container image", subject,
                                slipway::quoted(type)))
            .hint("take its files: slipway pull REFERENCE -o DIRECTORY");
    }
    OciImage image;
    const Descriptor config = parse_descriptor(manifest["config"], subject);
    image.manifest_digest = found.descriptor.digest;
    image.config_digest = config.digest;
    const std::string about = fmt::format("the config of {}", subject);
    image.config = config_from_json(parse_json(read_blob(*blobs, config, subject), about), about);
    // What an index says of an image counts more than what it says of itself.
    if (!platform.empty() && found.descriptor.platform.empty())
        require_platform(image.config, platform, subject);
    for (const Json& item : manifest["layers"]) image.layers.push_back(parse_layer(item, subject));
    if (image.layers.size() != image.config.diff_ids.size()) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} has {} layers, but its config lists {}", subject,
                                image.layers.size(), image.config.diff_ids.size()));
    }
    for (size_t i = 0; i < image.layers.size(); ++i) {
        image.layers[i].diff_id = image.config.diff_ids[i];
    }
    image.blobs = std::move(blobs);
    return image;
}

Json make_manifest(const Descriptor& config, const std::vector<Layer>& layers) {
    Json list = Json::array();
    for (const Layer& layer : layers) {
        list.push_back({{"mediaType", layer.media_type},
                        {"digest", layer.digest.text()},
                        {"size", layer.size_bytes}});
    }
    return {{"schemaVersion", 2},
            {"mediaType", kManifestType},
            {"config", to_json(config)},
            {"layers", list}};
}

}  // namespace slipway::image
