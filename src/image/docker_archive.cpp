// Reads images out of the tar files that `docker save` and its kin write.
// Must not: write anything but unlinked temporary files.
#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "byte_stream.hpp"
#include "oci_model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "tar_index.hpp"

namespace slipway::image {
namespace {

/// A file without a name, for what must be a descriptor of its own.
UniqueFd scratch_file() {
    std::string path = join_path(temporary_directory(), "slipway-XXXXXX");
    UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
    if (!fd) {
        throw SysError(fmt::format("cannot make a temporary file in {}",
                                   slipway::quoted(temporary_directory())),
                       "mkostemp");
    }
    ::unlink(path.c_str());
    return fd;
}

/// The archive as an uncompressed file: itself, or a decompressed copy.
UniqueFd open_uncompressed(const std::string& file) {
    UniqueFd fd = sys::open(file, O_RDONLY);
    if (detect_compression(fd.get(), file) == Compression::none) return fd;
    UniqueFd copy = scratch_file();
    auto stream = open_decompressed(std::move(fd), slipway::quoted(file));
    for (auto piece = stream->next(); !piece.empty(); piece = stream->next()) {
        sys::write_all(copy.get(), piece.data(), piece.size(), "a decompressed docker archive");
    }
    return copy;
}

/// Members of a docker archive as blobs.
class ArchiveBlobs : public BlobSource {
 public:
    ArchiveBlobs(UniqueFd archive, std::string subject)
        : archive_(std::move(archive)),
          subject_(std::move(subject)),
          members_(index_tar(archive_.get(), subject_)) {}

    const std::string& subject() const { return subject_; }

    /// A member, links followed; nullptr if it is not there.
    const TarMember* find(const std::string& name) const {
        std::string at = clean_member_path(name);
        for (int links = 0; links < 16; ++links) {
            auto it = members_.find(at);
            if (it == members_.end()) return nullptr;
            if (it->second.link_target.empty()) return &it->second;
            at = it->second.link_target;
        }
        return nullptr;
    }

    const TarMember& get(const std::string& name) const {
        if (const TarMember* member = find(name)) return *member;
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} has no member {}", subject_, slipway::quoted(name)));
    }

    UniqueFd open(const TarMember& member) const {
        UniqueFd copy = scratch_file();
        copy_bytes(archive_.get(), member.offset, copy.get(), 0, member.size_bytes, subject_);
        return copy;
    }

    std::string read(const TarMember& member) const {
        return read_all(open(member).get(), subject_);
    }

    void name_blob(const Digest& digest, const TarMember& member) { blobs_[digest] = member; }

    UniqueFd open_blob(const Digest& digest) const override {
        auto it = blobs_.find(digest);
        if (it == blobs_.end()) {
            throw Error(ErrorKind::not_found,
                        fmt::format("the blob {} is not in {}", digest.text(), subject_));
        }
        return open(it->second);
    }

 private:
    UniqueFd archive_;
    std::string subject_;
    std::map<std::string, TarMember> members_;
    std::map<Digest, TarMember> blobs_;
};

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
    std::string subject = slipway::quoted(file);
    auto blobs = std::make_shared<ArchiveBlobs>(open_uncompressed(file), subject);
    const TarMember* manifest = blobs->find("manifest.json");
    if (!manifest) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is no docker archive: it has no manifest.json", subject))
            .hint(
                "a plain tar of a root directory can be unpacked with tar and used as a "
                "directory");
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
