// Descriptors, indexes, the choice of one image among several, manifests.
// Must not: write, or open anything but blobs through a BlobSource.
#include "model.hpp"

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <set>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

namespace slipway::image {
namespace {

constexpr const char* kDockerListType = "application/vnd.docker.distribution.manifest.list.v2+json";
constexpr const char* kDockerManifestType = "application/vnd.docker.distribution.manifest.v2+json";
constexpr const char* kDockerConfigType = "application/vnd.docker.container.image.v1+json";
constexpr uint64_t kDocumentLimitBytes = 16u << 20;
constexpr int kMaxIndexDepth = 8;

const std::set<std::string> kLayerTypes = {
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
    return json_string(*platform, "os", subject) + "/" +
           json_string(*platform, "architecture", subject);
}

/// Cosign keeps signatures, attestations and SBOMs under tags made of the image's digest.
bool is_cosign_tag(const std::string& tag) {
    constexpr size_t kDigestEnds = sizeof("sha256-") - 1 + 64;
    if (!tag.starts_with("sha256-") || tag.size() < kDigestEnds) return false;
    const std::string kind = tag.substr(kDigestEnds);
    return kind == ".sig" || kind == ".att" || kind == ".sbom";
}

/// BuildKit's attestation manifests and other things that are no images.
bool is_artifact(const Descriptor& descriptor) {
    return is_cosign_tag(descriptor.tag) || descriptor.platform == "unknown/unknown" ||
           descriptor.json.contains("artifactType");
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

Descriptor choose_platform(const std::vector<Descriptor>& candidates, const std::string& platform,
                           const std::string& subject) {
    if (candidates.size() == 1) return candidates[0];
    std::vector<std::string> platforms;
    for (const Descriptor& candidate : candidates) {
        if (candidate.platform == platform) return candidate;
        if (!candidate.platform.empty()) platforms.push_back(candidate.platform);
    }
    throw Error(ErrorKind::unsupported, fmt::format("{} holds no image for {}", subject, platform))
        .note(platforms.empty() ? "its images do not say for which platform they are"
                                : fmt::format("it has: {}", fmt::join(platforms, ", ")));
}

Layer parse_layer(const Json& json, const std::string& subject) {
    Descriptor descriptor = parse_descriptor(json, subject);
    if (!kLayerTypes.contains(descriptor.media_type)) {
        bool encrypted = descriptor.media_type.ends_with("+encrypted");
        throw Error(ErrorKind::unsupported, fmt::format("{} has a layer of type {}{}", subject,
                                                        slipway::quoted(descriptor.media_type),
                                                        encrypted ? ", which is encrypted" : ""))
            .note("tar layers, plain or compressed with gzip or zstd, are understood");
    }
    return {descriptor.digest, {}, descriptor.size_bytes, descriptor.media_type};
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
    if (auto notes = json.find("annotations"); notes != json.end() && notes->is_object()) {
        descriptor.tag = json_string(*notes, kRefNameAnnotation, subject);
    }
    return descriptor;
}

Json to_json(const Descriptor& descriptor) {
    return {{"mediaType", descriptor.media_type},
            {"digest", descriptor.digest.text()},
            {"size", descriptor.size_bytes}};
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

std::string host_platform() {
    utsname name{};
    ::uname(&name);
    std::string machine = name.machine;
    if (machine == "x86_64") machine = "amd64";
    if (machine == "aarch64") machine = "arm64";
    return "linux/" + machine;
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

OciImage read_image(std::shared_ptr<const BlobSource> blobs, Descriptor descriptor,
                    const std::string& subject) {
    Json manifest;
    for (int depth = 0;; ++depth) {
        if (depth == kMaxIndexDepth) {
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{} nests indexes more than {} deep", subject, depth));
        }
        manifest = parse_json(read_blob(*blobs, descriptor, subject),
                              fmt::format("the manifest of {}", subject));
        if (!manifest.is_object()) {
            throw Error(ErrorKind::invalid_image,
                        fmt::format("the manifest of {} is not a JSON object", subject));
        }
        bool index = is_index_type(descriptor.media_type) ||
                     (manifest.contains("manifests") && !manifest.contains("config"));
        if (!index) break;
        auto inner = parse_index(manifest, subject);
        for (Descriptor& image : inner) image.tag.clear();
        descriptor = choose_image(inner, "", host_platform(), subject);
    }
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
    Descriptor config = parse_descriptor(manifest["config"], subject);
    if (config.media_type != kConfigType && config.media_type != kDockerConfigType) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is an artifact of type {}, not a container image", subject,
                                slipway::quoted(config.media_type)));
    }
    OciImage image;
    image.manifest_digest = descriptor.digest;
    image.config_digest = config.digest;
    image.config = config_from_json(
        parse_json(read_blob(*blobs, config, subject), fmt::format("the config of {}", subject)),
        fmt::format("the config of {}", subject));
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
