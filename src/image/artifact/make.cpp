// Makes artifacts of files, to be pushed.
// Must not: change or copy the file.
#include <fmt/format.h>

#include "../registry/documents.hpp"
#include "model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/dataset.hpp"

namespace slipway::image {
namespace {

constexpr std::string_view kAnnotationPrefix = "org.opencontainers.image.";

/// Documents, and a file where it lies.
class FileAndDocuments : public Documents {
 public:
    FileAndDocuments(std::string path, Digest digest)
        : path_(std::move(path)), digest_(std::move(digest)) {}
    UniqueFd open_blob(const Digest& digest) const override {
        if (digest == digest_) return sys::open(path_, O_RDONLY);
        return Documents::open_blob(digest);
    }

 private:
    std::string path_;
    Digest digest_;
};

/// What the file says of itself in OCI's words; a pack's description is in its labels, too.
Json annotations_of(const std::optional<ImageConfig>& config) {
    Json notes = Json::object();
    if (!config) return notes;
    for (const auto& [key, value] : config->labels)
        if (key.starts_with(kAnnotationPrefix)) notes[key] = value;
    const std::string created = std::string(kAnnotationPrefix) + "created";
    if (!config->created.empty() && !notes.contains(created)) notes[created] = config->created;
    return notes;
}

Descriptor add(Documents& documents, const std::string& text, const char* media_type) {
    Descriptor descriptor;
    descriptor.media_type = media_type;
    descriptor.digest = sha256(text);
    descriptor.size_bytes = text.size();
    documents.add(descriptor.digest, text);
    return descriptor;
}

bool describes_pack(const SquashfsImage& image) {
    return image.read_file(kPackDescriptionPath).has_value();
}

const char* type_of(const ImageRef& file, const SquashfsImage& image) {
    const bool pack = file.kind == RefKind::squashfs && describes_pack(image);
    return pack ? kDatasetArtifactType : kImageArtifactType;
}

}  // namespace

bool is_data_pack(const std::string& file) {
    return describes_pack(SquashfsImage(sys::open(file, O_RDONLY), file));
}

Artifact make_artifact(const ImageRef& file) {
    if (file.kind != RefKind::squashfs && file.kind != RefKind::sif)
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} ({}) is no single file that can be pushed as an artifact",
                                slipway::quoted(file.text), to_string(file.kind)))
            .note("requested by: --artifact")
            .hint(fmt::format("make one file of it: slipway convert {} FILE.sqfs", file.text));
    const SquashfsFile opened = open_squashfs_file(file);
    const SquashfsImage& image = *opened.image;
    Descriptor layer;
    layer.media_type = file.kind == RefKind::sif ? kSifLayerType : kSquashfsType;
    layer.digest = sha256_file(image.fd(), file.path);
    layer.size_bytes = static_cast<uint64_t>(sys::fstat(image.fd(), file.path).st_size);
    auto documents = std::make_shared<FileAndDocuments>(absolute_path(file.path), layer.digest);
    const Descriptor config = add(*documents, "{}", kEmptyType);
    Json layer_json = to_json(layer);
    layer_json["annotations"] = {{kTitleAnnotation, std::string(base_name(file.path))}};
    Json manifest{{"schemaVersion", 2},
                  {"mediaType", kManifestType},
                  {"artifactType", type_of(file, image)},
                  {"config", to_json(config)},
                  {"layers", Json::array({layer_json})}};
    if (Json notes = annotations_of(opened.config); !notes.empty())
        manifest["annotations"] = std::move(notes);
    const Descriptor top = add(*documents, to_text(manifest), kManifestType);
    return read_artifact(std::move(documents), {top, std::move(manifest)},
                         slipway::quoted(file.text));
}

}  // namespace slipway::image
