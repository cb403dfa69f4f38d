// Writes images into tar files: docker archives and OCI layouts.
// Must not: change a document that an image has, or write what has not the digest it should have.
#include "archive_writer.hpp"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <vector>

#include "../layer/byte_stream.hpp"
#include "../layer/tar_format.hpp"
#include "../temp_file.hpp"
#include "../trust/attached.hpp"
#include "model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

// What a ustar header's octal digits hold; a larger member needs a second header before its own.
constexpr uint64_t kUstarLimitBytes = uint64_t{1} << 33;

uint64_t padded(uint64_t size_bytes) {
    return (size_bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

/// Members one after another, owned by root and as old as the epoch.
class TarFile {
 public:
    explicit TarFile(const std::string& path) : path_(path), file_(path) {}

    void add_directory(const std::string& name) {
        Entry entry;
        entry.type = EntryType::directory;
        entry.path = name;
        entry.mode = 0755;
        put(tar_header(entry));
    }
    void add(const std::string& name, const std::string& text) {
        begin(name, text.size());
        write(text.data(), text.size());
        end();
    }
    /// Begin a member; without a size its header is written at its end.
    void begin(const std::string& name, std::optional<uint64_t> size_bytes) {
        name_ = name;
        start_ = at_;
        const std::string header = header_of(size_bytes.value_or(0));
        put(header);
        data_ = at_;
    }
    void write(const void* data, size_t size_bytes) {
        sys::pwrite_all(file_.fd(), data, size_bytes, at_, path_);
        at_ += size_bytes;
    }
    /// End the member. False, and nothing is written, if its size has no room in the header that
    /// was kept for it; returns the size either way.
    bool end() {
        size_bytes_ = at_ - data_;
        const std::string header = header_of(size_bytes_);
        if (header.size() != data_ - start_) {
            at_ = start_;
            return false;
        }
        sys::pwrite_all(file_.fd(), header.data(), header.size(), start_, path_);
        at_ = data_ + padded(size_bytes_);
        return true;
    }
    uint64_t member_bytes() const { return size_bytes_; }
    /// Two blocks of zeros end a tar. Returns the file's size.
    uint64_t finish() {
        at_ += 2 * kTarBlockBytes;
        sys::ftruncate(file_.fd(), static_cast<off_t>(at_), path_);
        sys::fsync(file_.fd(), path_);
        file_.commit(user_mode(0666));
        return at_;
    }

 private:
    std::string header_of(uint64_t size_bytes) const {
        Entry entry;
        entry.path = name_;
        entry.mode = 0644;
        entry.size_bytes = size_bytes;
        return tar_header(entry);
    }
    void put(const std::string& bytes) {
        sys::pwrite_all(file_.fd(), bytes.data(), bytes.size(), at_, path_);
        at_ += bytes.size();
    }

    std::string path_, name_;
    NewFile file_;
    uint64_t start_ = 0, data_ = 0, at_ = 0, size_bytes_ = 0;
};

/// Write a layer's uncompressed tar, once more if its size turns out to need a longer header.
void add_uncompressed(TarFile& tar, const OciImage& image, const Layer& layer,
                      const std::string& name, Progress& progress) {
    std::optional<uint64_t> size_bytes;
    do {
        auto stream = open_decompressed(image.blobs->open_blob(layer.digest),
                                        fmt::format("layer {}", layer.digest.hex().substr(0, 12)),
                                        {layer.digest, layer.diff_id});
        tar.begin(name, size_bytes);
        for (auto piece = stream->next(); !piece.empty(); piece = stream->next()) {
            tar.write(piece.data(), piece.size());
            progress.add(piece.size());
        }
        if (tar.end()) return;
        size_bytes = tar.member_bytes();
    } while (*size_bytes >= kUstarLimitBytes);
    throw Error(ErrorKind::internal, "a tar header has changed its length");
}

void add_blob(TarFile& tar, const OciImage& image, const Layer& layer, Progress& progress) {
    const UniqueFd blob = image.blobs->open_blob(layer.digest);
    std::vector<char> buffer(1 << 20);
    Sha256 hash;
    tar.begin("blobs/sha256/" + layer.digest.hex(), layer.size_bytes);
    while (const size_t got = sys::read(blob.get(), buffer.data(), buffer.size(), "a layer")) {
        hash.update(buffer.data(), got);
        tar.write(buffer.data(), got);
        progress.add(got);
    }
    if (const Digest found = hash.finish(); found != layer.digest) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the layer {} is damaged", layer.digest.hex().substr(0, 12)))
            .note(fmt::format("its digest is {}", found.text()))
            .hint("copy or pull the image again");
    }
    if (!tar.end()) throw Error(ErrorKind::invalid_image, "a layer has not the size announced");
}

Descriptor described(const std::string& text, const std::string& media_type) {
    Descriptor descriptor;
    descriptor.media_type = media_type;
    descriptor.digest = sha256(text);
    descriptor.size_bytes = text.size();
    return descriptor;
}

/// A document as it lies there, or one made of our types.
std::string document(const OciImage& image, const Digest& digest, const Json& otherwise) {
    if (digest.empty()) return to_text(otherwise);
    Descriptor descriptor;
    descriptor.digest = digest;
    const UniqueFd blob = image.blobs->open_blob(digest);
    descriptor.size_bytes = static_cast<uint64_t>(sys::fstat(blob.get(), digest.text()).st_size);
    return read_blob(*image.blobs, descriptor, "the image");
}

/// Signatures and what they need, and the entries that name them.
void add_attached(TarFile& tar, const Attached& attached, std::set<Digest>& there,
                  Json& manifests) {
    const LaidOut laid = lay_out(attached);
    for (const auto& [digest, text] : laid.texts)
        if (there.insert(digest).second) tar.add("blobs/sha256/" + digest.hex(), text);
    for (const auto& [name, descriptor] : laid.tags) {
        Json entry = to_json(descriptor);
        entry["annotations"] = {{kRefNameAnnotation, name}};
        manifests.push_back(entry);
    }
}

}  // namespace

uint64_t write_docker_archive(const OciImage& image, const std::string& path,
                              const std::string& name) {
    TarFile tar(path);
    Progress progress("writing layers", 0, Progress::Unit::bytes);
    Json names = Json::array();
    std::set<Digest> there;
    for (const Layer& layer : image.layers) {
        names.push_back(layer.diff_id.hex() + ".tar");
        if (there.insert(layer.diff_id).second)
            add_uncompressed(tar, image, layer, names.back().get<std::string>(), progress);
    }
    const std::string config = document(image, image.config_digest, config_to_json(image.config));
    const std::string config_name = sha256(config).hex() + ".json";
    tar.add(config_name, config);
    Json tags = Json::array();
    if (!name.empty()) tags.push_back(name);
    tar.add(
        "manifest.json",
        to_text(Json::array({{{"Config", config_name}, {"RepoTags", tags}, {"Layers", names}}})));
    progress.finish();
    return tar.finish();
}

uint64_t write_oci_archive(const OciImage& image, const std::string& path, const std::string& tag,
                           const std::vector<Attached>& attached) {
    TarFile tar(path);
    uint64_t total_bytes = 0;
    for (const Layer& layer : image.layers) total_bytes += layer.size_bytes;
    Progress progress("writing layers", total_bytes, Progress::Unit::bytes);
    tar.add("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
    tar.add_directory("blobs");
    tar.add_directory("blobs/sha256");
    std::set<Digest> there;
    for (const Layer& layer : image.layers)
        if (there.insert(layer.digest).second) add_blob(tar, image, layer, progress);
    const auto add_document = [&](const std::string& text, const std::string& media_type) {
        const Descriptor descriptor = described(text, media_type);
        tar.add("blobs/sha256/" + descriptor.digest.hex(), text);
        return descriptor;
    };
    const Descriptor config = add_document(
        document(image, image.config_digest, config_to_json(image.config)), kConfigType);
    const std::string text =
        document(image, image.manifest_digest, make_manifest(config, image.layers));
    const std::string type =
        json_string(parse_json(text, "the manifest"), "mediaType", "the manifest", kManifestType);
    Json manifest = to_json(add_document(text, type));
    manifest["annotations"] = {{kRefNameAnnotation, tag}};
    Json manifests = Json::array({manifest});
    for (const Digest& digest : {config.digest, sha256(text)}) there.insert(digest);
    for (const Attached& one : attached) add_attached(tar, one, there, manifests);
    tar.add(
        "index.json",
        to_text(Json{{"schemaVersion", 2}, {"mediaType", kIndexType}, {"manifests", manifests}}));
    progress.finish();
    return tar.finish();
}

}  // namespace slipway::image
