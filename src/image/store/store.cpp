// The user's image store: names and blobs.
// Must not: unpack layers (unpacked.cpp does) or decide what is garbage (collect.cpp).
#include "slipway/image/store.hpp"

#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "../artifact/model.hpp"
#include "../oci/model.hpp"
#include "../temp_file.hpp"
#include "../trust/attached.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"
#include "use.hpp"

namespace slipway::image {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::string default_directory() {
    if (std::string chosen = variable("SLIPWAY_STORE"); !chosen.empty()) return chosen;
    return Store::personal_directory();
}

std::string without_tag(const std::string& name) { return name.substr(0, name.rfind(':')); }

std::vector<std::string> near_names(const std::string& wanted,
                                    const std::vector<StoredImage>& images) {
    std::multimap<size_t, std::string> found;
    for (const StoredImage& image : images) {
        size_t apart = std::min(edit_distance(wanted, image.name),
                                edit_distance(without_tag(wanted), without_tag(image.name)));
        if (apart <= std::max<size_t>(2, wanted.size() / 4)) found.emplace(apart, image.name);
    }
    std::vector<std::string> names;
    for (const auto& [apart, name] : found) {
        if (names.size() < 5) names.push_back(name);
    }
    return names;
}

StoredImage as_listed(const Descriptor& manifest, const OciImage& image,
                      const std::string& directory) {
    StoredImage stored;
    stored.name = manifest.tag;
    stored.kind = "image";
    stored.manifest_digest = manifest.digest;
    stored.config_digest = image.config_digest;
    stored.created = image.config.created;
    stored.architecture = image.config.architecture;
    stored.layers = image.layers.size();
    for (const Layer& layer : image.layers) stored.size_bytes += layer.size_bytes;
    const std::string made =
        join_path(directory, fmt::format("squashfs/{}.sqfs", image.config_digest.hex()));
    if (sys::stat_if_exists(AT_FDCWD, made)) stored.squashfs = made;
    return stored;
}

StoredImage as_listed(const Descriptor& manifest, const Artifact& artifact) {
    StoredImage stored;
    stored.name = manifest.tag;
    stored.kind = to_string(artifact.kind);
    stored.artifact_type = artifact.type;
    stored.manifest_digest = manifest.digest;
    stored.config_digest = artifact.config_digest;
    if (const auto created = artifact.annotations.find("org.opencontainers.image.created");
        created != artifact.annotations.end())
        stored.created = created->second;
    stored.layers = artifact.files.size();
    for (const ArtifactFile& file : artifact.files) stored.size_bytes += file.size_bytes;
    return stored;
}

}  // namespace

bool is_read_only(const Error& error) {
    int reason = error.errno_value();
    return reason == EROFS || reason == EACCES || reason == EPERM;
}

Error read_only_store(const std::string& directory, const Error& error) {
    Error worded(ErrorKind::permission,
                 fmt::format("cannot write to the image store {}", slipway::quoted(directory)));
    worded.note(error.message());
    worded.note("its images can be listed, inspected, converted and run, but not changed");
    worded.hint("name a store of your own: SLIPWAY_STORE=" + Store::personal_directory());
    return worded;
}

FileLock lock_index(const Store& store) {
    return {join_path(store.subdirectory("locks"), "index"), FileLock::Mode::exclusive,
            kIndexTimeout};
}

std::string Store::personal_directory() {
    std::string data = variable("XDG_DATA_HOME");
    if (!data.starts_with("/")) data = join_path(home_directory(), ".local/share");
    return join_path(data, "slipway");
}

Store::Store(std::string directory)
    : directory_(std::move(directory)),
      blobs_(open_layout_blobs(join_path(directory_, "oci"))),
      use_(std::make_shared<Use>(directory_)) {}

Store Store::open(const std::string& directory) {
    Store store(absolute_path(directory.empty() ? default_directory() : directory));
    try {
        sys::make_directories(store.directory_, 0700);
        for (const char* name : {"tmp", "locks", "oci"}) store.subdirectory(name);
        LayoutWriter(join_path(store.directory_, "oci"), store.subdirectory("tmp"));
        sweep_temporary_files(store.subdirectory("tmp"));
    } catch (Error& error) {
        // A store that somebody else filled can be read without being changed.
        bool filled = sys::stat_if_exists(AT_FDCWD, join_path(store.directory_, "oci/index.json"))
                          .has_value();
        if (is_read_only(error) && filled) return store;
        error.note(
            fmt::format("while opening the image store {}", slipway::quoted(store.directory_)));
        error.hint("choose another place for the store with SLIPWAY_STORE");
        throw;
    }
    return store;
}

std::string Store::subdirectory(const std::string& name) const {
    std::string path = join_path(directory_, name);
    sys::make_directories(path, 0700);
    return path;
}

void Store::begin_use() const {
    std::lock_guard guard(use_->mutex);
    if (use_->lock) return;
    try {
        const std::string temporary = subdirectory("tmp");
        if (::access(temporary.c_str(), W_OK) != 0)
            throw SysError(fmt::format("cannot write to {}", slipway::quoted(temporary)), "access");
        use_->lock.emplace(join_path(subdirectory("locks"), "use"), FileLock::Mode::shared,
                           kIndexTimeout);
    } catch (const Error& error) {
        if (is_read_only(error)) throw read_only_store(directory_, error);
        throw;
    }
}

TempDir Store::temporary_directory() const {
    begin_use();
    return TempDir(subdirectory("tmp"), temporary_name() + "-");
}

std::optional<OciImage> Store::find(const std::string& name) const {
    std::string full = normalize_stored_name(name);
    std::string layout = join_path(directory_, "oci");
    auto manifests = parse_index(read_layout_index(layout), "the store's index");
    for (const Descriptor& manifest : manifests) {
        if (manifest.tag == full) return read_image(blobs_, manifest, slipway::quoted(full));
    }
    return std::nullopt;
}

OciImage Store::get(const std::string& name) const {
    if (auto image = find(name)) return std::move(*image);
    Error error(ErrorKind::not_found, fmt::format("there is no image {} in the store",
                                                  slipway::quoted(normalize_stored_name(name))));
    auto near = near_names(normalize_stored_name(name), list());
    if (!near.empty()) error.note(fmt::format("near it: {}", fmt::join(near, ", ")));
    error.note(fmt::format("the store is {}", slipway::quoted(directory_)));
    error.hint(
        "\"slipway images\" lists what there is; "
        "\"slipway bootstrap bookworm -t debian:12\" makes a base");
    throw error;
}

std::vector<StoredImage> Store::list() const {
    std::vector<StoredImage> images;
    Json index = read_layout_index(join_path(directory_, "oci"));
    for (const Descriptor& manifest : parse_index(index, "the store's index")) {
        if (manifest.tag.empty() || is_attachment_tag(manifest.tag)) continue;
        try {
            const Content content = read_content(blobs_, manifest, slipway::quoted(manifest.tag));
            images.push_back(content.artifact ? as_listed(manifest, *content.artifact)
                                              : as_listed(manifest, *content.image, directory_));
        } catch (const Error& error) {
            // One damaged image does not hide the others.
            log::warning("the stored image {} cannot be read: {}", manifest.tag, error.message());
        }
    }
    std::sort(images.begin(), images.end(),
              [](const StoredImage& a, const StoredImage& b) { return a.name < b.name; });
    return images;
}

OciImage Store::tag(const std::string& name, ImageConfig config, const std::vector<Layer>& layers) {
    std::string full = normalize_stored_name(name);
    begin_use();
    config.diff_ids.clear();
    for (const Layer& layer : layers) {
        config.diff_ids.push_back(layer.diff_id);
        if (!has_blob(layer.digest)) {
            throw Error(ErrorKind::internal,
                        fmt::format("the layer {} of {} is not in the store", layer.digest.text(),
                                    slipway::quoted(full)));
        }
    }
    LayoutWriter writer(join_path(directory_, "oci"), subdirectory("tmp"));
    Descriptor document = writer.put(to_text(config_to_json(config)), kConfigType);
    Descriptor manifest = writer.put(to_text(make_manifest(document, layers)), kManifestType);
    {
        const FileLock lock = lock_index(*this);
        writer.set_tag(full, manifest);
    }
    return read_image(blobs_, manifest, slipway::quoted(full));
}

OciImage Store::import(const std::string& name, const OciImage& image) {
    std::string full = normalize_stored_name(name);
    begin_use();
    LayoutWriter writer(join_path(directory_, "oci"), subdirectory("tmp"));
    Descriptor manifest = writer.put_image(image);
    {
        const FileLock lock = lock_index(*this);
        writer.set_tag(full, manifest);
    }
    return read_image(blobs_, manifest, slipway::quoted(full));
}

Layer Store::add_layer(const std::function<Layer(int fd)>& write) {
    begin_use();
    TempFile file(subdirectory("tmp"));
    Layer layer = write(file.fd());
    if (!has_blob(layer.digest)) {
        file.commit(blob_path(join_path(directory_, "oci"), layer.digest));
    }
    return layer;
}

bool Store::has_blob(const Digest& digest) const {
    return sys::stat_if_exists(AT_FDCWD, blob_path(join_path(directory_, "oci"), digest))
        .has_value();
}

UniqueFd Store::open_blob(const Digest& digest) const { return blobs_->open_blob(digest); }

}  // namespace slipway::image
