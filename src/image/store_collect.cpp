// Takes names away from the store and deletes what nothing names any more.
// Must not: delete while another process adds to the store.
#include <fmt/core.h>

#include <chrono>
#include <set>

#include "oci_model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/store.hpp"
#include "store_use.hpp"

namespace slipway::image {
namespace {

constexpr auto kIndexTimeout = std::chrono::seconds(30);

/// The hexadecimal digits of every digest that something names.
using Marked = std::set<std::string>;

/// Every digest that stands anywhere in a document.
void mark_document(const Json& json, Marked& marked) {
    if (json.is_string()) {
        const auto& text = json.get_ref<const std::string&>();
        if (text.starts_with("sha256:") && text.size() == 71) marked.insert(text.substr(7));
    } else if (json.is_structured()) {
        for (const Json& item : json) mark_document(item, marked);
    }
}

/// A small JSON blob's own digests; a blob that is missing or no JSON names nothing.
void mark_blob(const BlobSource& blobs, const Descriptor& descriptor, Marked& marked) {
    try {
        Json json = parse_json(read_blob(blobs, descriptor, "the store"), "a blob");
        mark_document(json, marked);
        if (json.contains("config")) {
            mark_blob(blobs, parse_descriptor(json["config"], "a manifest"), marked);
        }
        for (const Descriptor& inner : parse_index(json, "an index")) {
            mark_blob(blobs, inner, marked);
        }
    } catch (const Error& error) {
        log::verbose("the store's blob {} cannot be read: {}", descriptor.digest.text(),
                     error.message());
    }
}

void mark_cache(const std::string& directory, Marked& marked) {
    auto dir = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!dir) return;
    for (const std::string& name : sys::list_directory(dir->get(), directory)) {
        std::string path = join_path(directory, name);
        if (!name.ends_with(".json")) continue;
        try {
            mark_document(parse_json(read_file(path), path), marked);
        } catch (const Error& error) {
            log::verbose("the cache entry {} cannot be read: {}", path, error.message());
        }
    }
}

/// Remove the names in a directory whose first 64 characters are no marked digest.
void sweep(const std::string& directory, const Marked& marked) {
    auto dir = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!dir) return;
    for (const std::string& name : sys::list_directory(dir->get(), directory)) {
        bool digest = name.size() >= 64 &&
                      name.substr(0, 64).find_first_not_of("0123456789abcdef") == std::string::npos;
        if (digest && !marked.contains(name.substr(0, 64))) remove_tree(dir->get(), name);
    }
}

void empty_directory(const std::string& directory) {
    auto dir = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!dir) return;
    for (const std::string& name : sys::list_directory(dir->get(), directory))
        remove_tree(dir->get(), name);
}

}  // namespace

void Store::remove(const std::string& name) {
    std::string full = normalize_stored_name(name);
    {
        FileLock lock(join_path(subdirectory("locks"), "index"), FileLock::Mode::exclusive,
                      kIndexTimeout);
        LayoutWriter writer(join_path(directory_, "oci"), subdirectory("tmp"));
        if (!writer.remove_tag(full)) get(full);  // throws, with the names that come near
    }
    if (!collect(false))
        log::info(
            "another slipway is adding to the store: what is no longer needed is deleted with the "
            "next image that is removed");
}

void Store::prune_cache() {
    if (!collect(true)) {
        throw Error(ErrorKind::busy, fmt::format("another slipway is using the store {}",
                                                 slipway::quoted(directory_)))
            .hint("wait until it has ended, then: slipway gc");
    }
}

bool Store::collect(bool and_cache) {
    std::lock_guard guard(use_->mutex);
    use_->lock.reset();  // our own use would forbid it, too
    std::string locks = subdirectory("locks");
    try {
        FileLock alone(join_path(locks, "use"), FileLock::Mode::exclusive,
                       std::chrono::milliseconds(0));
        FileLock index(join_path(locks, "index"), FileLock::Mode::exclusive, kIndexTimeout);
        if (and_cache) {
            empty_directory(join_path(directory_, "cache"));
            empty_directory(join_path(directory_, "partial"));
        }
        std::string layout = join_path(directory_, "oci");
        Marked marked;
        for (const Descriptor& manifest :
             parse_index(read_layout_index(layout), "the store's index")) {
            marked.insert(manifest.digest.hex());
            mark_blob(*blobs_, manifest, marked);
        }
        mark_cache(join_path(directory_, "cache"), marked);
        sweep(join_path(layout, "blobs/sha256"), marked);
        sweep(join_path(directory_, "unpacked"), marked);
        sweep(join_path(directory_, "squashfs"), marked);
        sweep(join_path(directory_, "packs"), marked);
        return true;
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::busy) throw;
        return false;
    }
}

}  // namespace slipway::image
