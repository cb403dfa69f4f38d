// Reads images that lie in tar files: OCI layouts and plain root directories.
// Must not: write anything but unlinked temporary files.
#include "archive_blobs.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "../layer/byte_stream.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

/// The archive as an uncompressed file: itself, or a decompressed copy.
UniqueFd open_uncompressed(const std::string& file) {
    UniqueFd fd = sys::open(file, O_RDONLY);
    if (detect_compression(fd.get(), file) == Compression::none) return fd;
    UniqueFd copy = scratch_file();
    auto stream = open_decompressed(std::move(fd), slipway::quoted(file));
    for (auto piece = stream->next(); !piece.empty(); piece = stream->next()) {
        sys::write_all(copy.get(), piece.data(), piece.size(),
                       fmt::format("a decompressed copy of {}", file));
    }
    return copy;
}

/// A whole file as the one blob it is.
class FileBlob : public BlobSource {
 public:
    FileBlob(std::string path, Digest digest)
        : path_(std::move(path)), digest_(std::move(digest)) {}
    UniqueFd open_blob(const Digest& digest) const override {
        if (digest == digest_) return sys::open(path_, O_RDONLY);
        throw Error(ErrorKind::not_found,
                    fmt::format("the blob {} is not in {}", digest.text(), slipway::quoted(path_)));
    }

 private:
    std::string path_;
    Digest digest_;
};

OciImage plain_tar(const ArchiveBlobs& members, const std::string& file) {
    OciImage image;
    if (const TarMember* document = members.find(kConfigPathInImage)) {
        const std::string subject = fmt::format("{} in {}", kConfigPathInImage, file);
        image.config = config_from_json(parse_json(members.read(*document), subject), subject);
    }
    const UniqueFd whole = sys::open(file, O_RDONLY);
    const Compression compression = detect_compression(whole.get(), file);
    Layer layer;
    layer.diff_id = sha256_file(members.fd(), file);
    layer.digest =
        compression == Compression::none ? layer.diff_id : sha256_file(whole.get(), file);
    layer.size_bytes = static_cast<uint64_t>(sys::fstat(whole.get(), file).st_size);
    layer.media_type = "application/vnd.oci.image.layer.v1.tar";
    if (compression == Compression::gzip) layer.media_type += "+gzip";
    if (compression == Compression::zstd) layer.media_type += "+zstd";
    image.config.become_one_layer(layer.diff_id);
    image.layers = {layer};
    image.blobs = std::make_shared<FileBlob>(absolute_path(file), layer.digest);
    return image;
}

/// The text of an OCI archive's index.json.
std::string archive_index(const ArchiveBlobs& members) {
    const std::string& subject = members.subject();
    for (const char* name : {"oci-layout", "index.json"}) {
        if (members.find(name)) continue;
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} holds no OCI layout: it has no member {}", subject,
                                slipway::quoted(name)))
            .hint("name it without a scheme: what kind of archive it is is found out");
    }
    return members.read(members.get("index.json"));
}

OciImage oci_archive(std::shared_ptr<const ArchiveBlobs> members, const std::string& tag,
                     const std::string& platform) {
    const std::string& subject = members->subject();
    const Json index = parse_json(archive_index(*members), subject);
    const Descriptor descriptor = choose_image(parse_index(index, subject), tag, platform, subject);
    return read_image(std::move(members), descriptor, subject, platform);
}

}  // namespace

UniqueFd scratch_file() {
    std::string path = join_path(temporary_directory(), "slipway-XXXXXX");
    UniqueFd fd(::open(temporary_directory().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd) return fd;
    fd.reset(::mkostemp(path.data(), O_CLOEXEC));
    if (!fd) {
        throw SysError(fmt::format("cannot make a temporary file in {}",
                                   slipway::quoted(temporary_directory())),
                       "mkostemp");
    }
    ::unlink(path.c_str());
    return fd;
}

ArchiveBlobs::ArchiveBlobs(const std::string& file)
    : subject_(slipway::quoted(file)),
      archive_(open_uncompressed(file)),
      members_(index_tar(archive_.get(), subject_)) {}

const TarMember* ArchiveBlobs::find(const std::string& name) const {
    std::string at = clean_member_path(name);
    for (int links = 0; links < 16; ++links) {
        auto it = members_.find(at);
        if (it == members_.end()) return nullptr;
        if (it->second.link_target.empty()) return &it->second;
        at = it->second.link_target;
    }
    return nullptr;
}

const TarMember& ArchiveBlobs::get(const std::string& name) const {
    if (const TarMember* member = find(name)) return *member;
    throw Error(ErrorKind::invalid_image,
                fmt::format("{} has no member {}", subject_, slipway::quoted(name)))
        .hint("save or copy the image again; a part of it is missing");
}

UniqueFd ArchiveBlobs::open(const TarMember& member) const {
    UniqueFd copy = scratch_file();
    copy_bytes(archive_.get(), member.offset, copy.get(), 0, member.size_bytes, subject_);
    return copy;
}

std::string ArchiveBlobs::read(const TarMember& member) const {
    return read_all(open(member).get(), subject_);
}

UniqueFd ArchiveBlobs::open_blob(const Digest& digest) const {
    if (auto it = blobs_.find(digest); it != blobs_.end()) return open(it->second);
    if (const TarMember* member = find("blobs/sha256/" + digest.hex())) return open(*member);
    throw Error(ErrorKind::not_found,
                fmt::format("the blob {} is not in {}", digest.text(), subject_))
        .hint("save or copy the image again; a part of it is missing");
}

Json ArchiveBlobs::index() const {
    const TarMember* member = find("index.json");
    if (member == nullptr) return Json::object();
    return parse_json(read(*member), subject_);
}

OciImage open_oci_archive(const std::string& file, const std::string& tag,
                          const std::string& platform) {
    return oci_archive(std::make_shared<ArchiveBlobs>(file), tag, platform);
}

std::pair<std::shared_ptr<const BlobSource>, std::string> open_archive_index(
    const std::string& file) {
    auto members = std::make_shared<ArchiveBlobs>(file);
    std::string index = archive_index(*members);
    return {std::move(members), std::move(index)};
}

OciImage open_plain_tar(const std::string& file) { return plain_tar(ArchiveBlobs(file), file); }

ArchiveImage open_archive(const std::string& file, const std::string& name,
                          const std::string& platform) {
    auto members = std::make_shared<ArchiveBlobs>(file);
    // What docker saves today is both; names of images are in manifest.json only.
    if (members->find("manifest.json"))
        return {RefKind::docker_archive, open_docker_archive(std::move(members), name)};
    if (members->find("oci-layout") && members->find("index.json"))
        return {RefKind::oci_archive, oci_archive(std::move(members), name, platform)};
    if (!name.empty()) {
        throw Error(ErrorKind::usage, fmt::format("{} is a plain tar file, which holds no image {}",
                                                  members->subject(), slipway::quoted(name)));
    }
    return {RefKind::tar, plain_tar(*members, file)};
}

}  // namespace slipway::image
