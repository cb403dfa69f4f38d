// Reads and writes OCI image layout directories.
// Must not: decide which image of an index is meant (model.cpp does).
#include <fmt/core.h>

#include <vector>

#include "../temp_file.hpp"
#include "model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

class LayoutBlobs : public IndexedBlobs {
 public:
    explicit LayoutBlobs(std::string directory) : directory_(std::move(directory)) {}
    UniqueFd open_blob(const Digest& digest) const override {
        auto fd = sys::openat_if_exists(AT_FDCWD, blob_path(directory_, digest), O_RDONLY);
        if (!fd) {
            throw Error(ErrorKind::not_found, fmt::format("the blob {} is not in {}", digest.text(),
                                                          slipway::quoted(directory_)))
                .hint("copy or pull the image again; a part of it is missing");
        }
        return std::move(*fd);
    }
    Json index() const override { return read_layout_index(directory_); }

 private:
    std::string directory_;
};

void check_layout_version(const std::string& directory) {
    std::string path = join_path(directory, "oci-layout");
    auto fd = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY);
    if (!fd) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is no OCI layout: it has no file \"oci-layout\"",
                                slipway::quoted(directory)));
    }
    Json json = parse_json(read_all(fd->get(), path), path);
    std::string version = json_string(json, "imageLayoutVersion", path);
    if (!version.starts_with("1.")) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is an OCI layout of version {}; version 1 is understood",
                                slipway::quoted(directory), slipway::quoted(version)));
    }
}

uint64_t size_of(const UniqueFd& fd, const std::string& subject) {
    return static_cast<uint64_t>(sys::fstat(fd.get(), subject).st_size);
}

[[noreturn]] void wrong_digest(const Digest& expected, const Digest& found,
                               const std::string& subject) {
    throw Error(ErrorKind::invalid_image,
                fmt::format("the blob {} of {} is damaged", expected.text(), subject))
        .note(fmt::format("its digest is {}", found.text()))
        .hint("copy or pull the image again");
}

}  // namespace

std::string blob_path(const std::string& layout, const Digest& digest) {
    return fmt::format("{}/blobs/sha256/{}", layout, digest.hex());
}

std::shared_ptr<const BlobSource> open_layout_blobs(const std::string& directory) {
    return std::make_shared<LayoutBlobs>(absolute_path(directory));
}

Json read_layout_index(const std::string& directory) {
    std::string path = join_path(directory, "index.json");
    auto fd = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY);
    if (!fd) return {{"schemaVersion", 2}, {"mediaType", kIndexType}, {"manifests", Json::array()}};
    Json index = parse_json(read_all(fd->get(), path), path);
    parse_index(index, slipway::quoted(path));
    return index;
}

OciImage open_oci_layout(const std::string& directory, const std::string& tag,
                         const std::string& platform) {
    if (!sys::stat_if_exists(AT_FDCWD, directory)) {
        throw Error(ErrorKind::not_found,
                    fmt::format("there is no directory {}", slipway::quoted(directory)));
    }
    check_layout_version(directory);
    std::string subject =
        tag.empty() ? slipway::quoted(directory) : slipway::quoted(directory + ":" + tag);
    Json index = read_layout_index(directory);
    Descriptor descriptor =
        choose_image(parse_index(index, subject), tag, platform, slipway::quoted(directory));
    return read_image(open_layout_blobs(directory), descriptor, subject, platform);
}

void verify_blobs(const OciImage& image) {
    for (const Layer& layer : image.layers) {
        UniqueFd fd = image.blobs->open_blob(layer.digest);
        Digest found = sha256_file(fd.get(), layer.digest.text());
        if (found != layer.digest) wrong_digest(layer.digest, found, "the image");
        if (layer.size_bytes != size_of(fd, layer.digest.text())) {
            throw Error(ErrorKind::invalid_image,
                        fmt::format("the layer {} is {} bytes long, but its manifest says {}",
                                    layer.digest.text(), size_of(fd, layer.digest.text()),
                                    layer.size_bytes));
        }
    }
}

LayoutWriter::LayoutWriter(std::string directory, std::string temporary)
    : directory_(std::move(directory)), temporary_(std::move(temporary)) {
    sys::make_directories(join_path(directory_, "blobs/sha256"));
    std::string version = join_path(directory_, "oci-layout");
    if (!sys::stat_if_exists(AT_FDCWD, version)) {
        write_document(version, R"({"imageLayoutVersion":"1.0.0"})");
    }
}

Descriptor LayoutWriter::put(const std::string& data, const std::string& media_type) {
    Descriptor descriptor;
    descriptor.media_type = media_type;
    descriptor.digest = sha256(data);
    descriptor.size_bytes = data.size();
    std::string path = blob_path(directory_, descriptor.digest);
    if (!sys::stat_if_exists(AT_FDCWD, path)) {
        TempFile file(temporary_);
        sys::write_all(file.fd(), data.data(), data.size(), path);
        file.commit(path);
    }
    return descriptor;
}

void LayoutWriter::copy(const BlobSource& from, const Digest& digest, const std::string& subject) {
    std::string path = blob_path(directory_, digest);
    if (sys::stat_if_exists(AT_FDCWD, path)) return;
    UniqueFd in = from.open_blob(digest);
    TempFile file(temporary_);
    file.reserve(size_of(in, subject));
    Sha256 hash;
    std::vector<char> buffer(1 << 20);
    Progress progress(fmt::format("copying {}", digest.hex().substr(0, 12)), size_of(in, subject),
                      Progress::Unit::bytes);
    while (size_t got = sys::read(in.get(), buffer.data(), buffer.size(), digest.text())) {
        hash.update(buffer.data(), got);
        sys::write_all(file.fd(), buffer.data(), got, path);
        progress.add(got);
    }
    Digest found = hash.finish();
    if (found != digest) wrong_digest(digest, found, subject);
    file.commit(path);
    progress.finish();
}

Descriptor LayoutWriter::put_image(const OciImage& image) {
    for (const Layer& layer : image.layers) copy(*image.blobs, layer.digest, "the image");
    Descriptor config;
    if (image.config_digest.empty()) {
        config = put(to_text(config_to_json(image.config)), kConfigType);
    } else {
        copy(*image.blobs, image.config_digest, "the image");
        config.media_type = kConfigType;
        config.digest = image.config_digest;
        config.size_bytes = static_cast<uint64_t>(
            sys::stat_if_exists(AT_FDCWD, blob_path(directory_, config.digest))->st_size);
    }
    // An image that has a manifest keeps it, with its annotations and its digest.
    if (image.manifest_digest.empty()) {
        return put(to_text(make_manifest(config, image.layers)), kManifestType);
    }
    UniqueFd fd = image.blobs->open_blob(image.manifest_digest);
    std::string text = read_all(fd.get(), image.manifest_digest.text());
    Json json = parse_json(text, "the manifest");
    return put(text, json_string(json, "mediaType", "the manifest", kManifestType));
}

/// Through the temporary directory, which is swept: a kill leaves nothing beside the document.
void LayoutWriter::write_document(const std::string& path, const std::string& text) {
    TempFile file(temporary_);
    sys::write_all(file.fd(), text.data(), text.size(), path);
    file.commit(path);
}

void LayoutWriter::write_index(const Json& index) {
    write_document(join_path(directory_, "index.json"), to_text(index));
}

void LayoutWriter::set_tag(const std::string& tag, Descriptor manifest) {
    Json index = read_layout_index(directory_);
    Json kept = Json::array();
    for (const Json& item : index["manifests"]) {
        if (parse_descriptor(item, "index.json").tag != tag) kept.push_back(item);
    }
    Json item = to_json(manifest);
    if (!tag.empty()) item["annotations"] = {{kRefNameAnnotation, tag}};
    kept.push_back(item);
    index["schemaVersion"] = 2;
    index["manifests"] = kept;
    write_index(index);
}

bool LayoutWriter::remove_tag(const std::string& tag) {
    Json index = read_layout_index(directory_);
    Json kept = Json::array();
    for (const Json& item : index["manifests"]) {
        if (parse_descriptor(item, "index.json").tag != tag) kept.push_back(item);
    }
    bool found = kept.size() != index["manifests"].size();
    if (found) {
        index["manifests"] = kept;
        write_index(index);
    }
    return found;
}

void write_oci_layout(const OciImage& image, const std::string& directory, const std::string& tag) {
    std::string blobs = join_path(directory, "blobs/sha256");
    LayoutWriter writer(directory, blobs);
    sweep_temporary_files(blobs);
    writer.set_tag(tag, writer.put_image(image));
}

}  // namespace slipway::image
