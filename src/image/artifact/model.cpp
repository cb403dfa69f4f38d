// Understands artifacts' manifests, and keeps them in the store.
// Must not: read an artifact's files.
#include "model.hpp"

#include <fmt/format.h>

#include "../store/use.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

/// Other tools say less than ours: oras and podman know a file's name only.
ArtifactKind kind_of(const Artifact& artifact) {
    if (artifact.files.size() != 1) return ArtifactKind::other;
    const ArtifactFile& file = artifact.files[0];
    if (artifact.type == kDatasetArtifactType) return ArtifactKind::dataset;
    if (file.media_type == kSquashfsType) return ArtifactKind::squashfs;
    if (file.media_type == kSifLayerType || file.title.ends_with(".sif")) return ArtifactKind::sif;
    const bool named = file.title.ends_with(".sqfs") || file.title.ends_with(".squashfs");
    return named ? ArtifactKind::squashfs : ArtifactKind::other;
}

std::map<std::string, std::string> annotations_of(const Json& object) {
    std::map<std::string, std::string> found;
    const auto notes = object.find("annotations");
    if (notes == object.end() || !notes->is_object()) return found;
    for (const auto& [key, value] : notes->items())
        if (value.is_string()) found[key] = value.get<std::string>();
    return found;
}

std::string layout_of(const Store& store) { return join_path(store.directory(), "oci"); }

std::optional<Descriptor> entry_of(const Store& store, const std::string& name) {
    const std::string full = normalize_stored_name(name);
    for (Descriptor& entry : parse_index(read_layout_index(layout_of(store)), "the store's index"))
        if (entry.tag == full) return std::move(entry);
    return std::nullopt;
}

Artifact stored_artifact(const Store& store, const Descriptor& entry) {
    auto blobs = open_layout_blobs(layout_of(store));
    const std::string subject = slipway::quoted(entry.tag);
    const Manifest manifest = read_manifest(*blobs, entry, subject);
    return read_artifact(std::move(blobs), manifest, subject);
}

}  // namespace

std::string_view to_string(ArtifactKind kind) {
    switch (kind) {
        case ArtifactKind::dataset:
            return "dataset";
        case ArtifactKind::squashfs:
            return "squashfs";
        case ArtifactKind::sif:
            return "SIF";
        case ArtifactKind::other:
            break;
    }
    return "artifact";
}

Artifact read_artifact(std::shared_ptr<const BlobSource> blobs, const Manifest& manifest,
                       const std::string& subject) {
    Artifact artifact;
    artifact.type = artifact_type_of(manifest.json, subject);
    artifact.manifest_digest = manifest.descriptor.digest;
    artifact.manifest_type = json_string(manifest.json, "mediaType", subject, kManifestType);
    artifact.config_digest = parse_descriptor(manifest.json["config"], subject).digest;
    artifact.annotations = annotations_of(manifest.json);
    if (!manifest.json.contains("layers") || !manifest.json["layers"].is_array())
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the manifest of {} has no layers", subject));
    for (const Json& item : manifest.json["layers"]) {
        const Descriptor layer = parse_descriptor(item, subject);
        auto notes = annotations_of(item);
        artifact.files.push_back(
            {std::move(notes[kTitleAnnotation]), layer.media_type, layer.digest, layer.size_bytes});
    }
    artifact.kind = kind_of(artifact);
    artifact.blobs = std::move(blobs);
    return artifact;
}

Content read_content(std::shared_ptr<const BlobSource> blobs, const Descriptor& descriptor,
                     const std::string& subject, const std::string& platform) {
    Content content;
    const Manifest manifest = read_manifest(*blobs, descriptor, subject, platform);
    if (artifact_type_of(manifest.json, subject).empty())
        content.image = read_image(std::move(blobs), manifest.descriptor, subject, platform);
    else
        content.artifact = read_artifact(std::move(blobs), manifest, subject);
    return content;
}

std::vector<Layer> blobs_of(const Artifact& artifact) {
    std::vector<Layer> list;
    for (const ArtifactFile& file : artifact.files)
        list.push_back({file.digest, {}, file.size_bytes, file.media_type});
    return list;
}

std::optional<Artifact> find_artifact(const Store& store, const std::string& name) {
    const auto entry = entry_of(store, name);
    if (!entry || entry->artifact_type.empty()) return std::nullopt;
    return stored_artifact(store, *entry);
}

std::optional<Content> find_content(const Store& store, const std::string& name) {
    const auto entry = entry_of(store, name);
    if (!entry) return std::nullopt;
    Content content;
    if (entry->artifact_type.empty())
        content.image =
            read_image(open_layout_blobs(layout_of(store)), *entry, slipway::quoted(entry->tag));
    else
        content.artifact = stored_artifact(store, *entry);
    return content;
}

Artifact name_artifact(Store& store, const std::string& name, const Artifact& artifact) {
    const std::string full = normalize_stored_name(name);
    store.begin_use();
    const std::string layout = layout_of(store);
    LayoutWriter writer(layout, store.subdirectory("tmp"));
    Descriptor descriptor;
    descriptor.media_type = artifact.manifest_type;
    descriptor.artifact_type = artifact.type;
    descriptor.digest = artifact.manifest_digest;
    descriptor.size_bytes = static_cast<uint64_t>(
        sys::fstat(store.open_blob(artifact.manifest_digest).get(), full).st_size);
    {
        const FileLock lock = lock_index(store);
        writer.set_tag(full, descriptor);
    }
    Artifact stored = artifact;
    stored.blobs = open_layout_blobs(layout);
    return stored;
}

Error no_image(const Artifact& artifact, const std::string& reference) {
    Error error(ErrorKind::unsupported,
                fmt::format("{} is an artifact of type {}, not an image",
                            slipway::quoted(reference), slipway::quoted(artifact.type)));
    std::string files;
    for (size_t i = 0; i < artifact.files.size() && i < 5; ++i)
        files += (i == 0 ? "" : ", ") + slipway::quoted(artifact.files[i].title.empty()
                                                            ? artifact.files[i].digest.text()
                                                            : artifact.files[i].title);
    if (artifact.files.size() > 5) files += fmt::format(" and {} more", artifact.files.size() - 5);
    if (!files.empty()) error.note("its files: " + files);
    if (artifact.kind == ArtifactKind::dataset)
        error.hint(
            fmt::format("show it in a container: slipway run --data {}:/data IMAGE", reference));
    else
        error.hint("take its files: slipway pull REFERENCE -o DIRECTORY");
    return error;
}

}  // namespace slipway::image
