// Reads images out of the tar files that `docker save` and its kin write.
// Must not: write anything but unlinked temporary files.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "../layer/byte_stream.hpp"
#include "archive_blobs.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

bool names_match(const std::string& tag, const std::string& wanted) {
    return tag == wanted || tag == wanted + ":latest";
}

/// The element of manifest.json that `reference` names. Source: moby, image/spec/v1.2.md.
Json choose(const Json& manifest, const std::string& reference, const std::string& subject) {
    if (!manifest.is_array() || manifest.empty()) {
        throw Error(ErrorKind::invalid_image, fmt::format("{} holds no image", subject));
    }
    std::vector<std::string> all;
    for (const Json& item : manifest) {
        for (const std::string& tag : json_strings(item, "RepoTags", subject)) {
            if (names_match(tag, reference)) return item;
            all.push_back(tag);
        }
    }
    std::string list = all.empty() ? "its images have no names"
                                   : fmt::format("names there: {}", fmt::join(all, ", "));
    if (!reference.empty()) {
        throw Error(ErrorKind::not_found,
                    fmt::format("{} has no image {}", subject, slipway::quoted(reference)))
            .note(list);
    }
    if (manifest.size() > 1) {
        throw Error(ErrorKind::usage, fmt::format("{} holds several images", subject))
            .note(list)
            .hint("add :NAME:TAG to the reference to say which one");
    }
    return manifest[0];
}

Digest digest_of(const ArchiveBlobs& blobs, const TarMember& member) {
    return sha256_file(blobs.open(member).get(), blobs.subject());
}

/// An uncompressed layer's digest is its diff id: it is read, and checked, when it is used.
Layer take_layer(ArchiveBlobs& blobs, const std::string& name, const Digest& diff_id) {
    const TarMember& member = blobs.get(name);
    // A member is looked at through a copy only if its first bytes are needed no further.
    TarMember head = member;
    head.size_bytes = std::min<uint64_t>(member.size_bytes, 16);
    Compression compression = detect_compression(blobs.open(head).get(), name);
    Layer layer;
    layer.diff_id = diff_id;
    layer.size_bytes = member.size_bytes;
    layer.media_type = "application/vnd.oci.image.layer.v1.tar";
    if (compression == Compression::gzip) layer.media_type += "+gzip";
    if (compression == Compression::zstd) layer.media_type += "+zstd";
    layer.digest = compression == Compression::none ? diff_id : digest_of(blobs, member);
    blobs.name_blob(layer.digest, member);
    return layer;
}

}  // namespace

OciImage open_docker_archive(const std::string& file, const std::string& reference) {
    return open_docker_archive(std::make_shared<ArchiveBlobs>(file), reference);
}

OciImage open_docker_archive(std::shared_ptr<ArchiveBlobs> blobs, const std::string& reference) {
    const std::string& subject = blobs->subject();
    const TarMember* manifest = blobs->find("manifest.json");
    if (!manifest) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is no docker archive: it has no manifest.json", subject))
            .hint("name it without a scheme: what kind of archive it is is found out");
    }
    Json item = choose(parse_json(blobs->read(*manifest), subject), reference, subject);
    const TarMember& config = blobs->get(json_string(item, "Config", subject));
    std::string text = blobs->read(config);

    OciImage image;
    image.config_digest = sha256(text);
    blobs->name_blob(image.config_digest, config);
    image.config =
        config_from_json(parse_json(text, "the config in " + subject), "the config in " + subject);
    std::vector<std::string> layers = json_strings(item, "Layers", subject);
    if (layers.size() != image.config.diff_ids.size()) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} has {} layers, but its config lists {}", subject, layers.size(),
                                image.config.diff_ids.size()));
    }
    for (size_t i = 0; i < layers.size(); ++i) {
        image.layers.push_back(take_layer(*blobs, layers[i], image.config.diff_ids[i]));
    }
    image.blobs = blobs;
    return image;
}

}  // namespace slipway::image
