// Takes names away from the store and deletes what nothing names any more.
// Must not: delete while another process adds to the store.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>

#include "../oci/model.hpp"
#include "../temp_file.hpp"
#include "../trust/attached.hpp"
#include "kept_file.hpp"
#include "size.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/store.hpp"
#include "use.hpp"

namespace slipway::image {
namespace {

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

/// All that the names of an index and, if wanted, the build cache need.
Marked marked_by(const Json& names, const BlobSource& blobs, const std::string& store,
                 bool build_cache) {
    Marked marked;
    for (const Descriptor& manifest : parse_index(names, "the store's index")) {
        marked.insert(manifest.digest.hex());
        mark_blob(blobs, manifest, marked);
    }
    if (build_cache) mark_cache(join_path(store, "cache"), marked);
    return marked;
}

/// Nobody else adds to the store while it is held. Throws: Error(busy).
FileLock lock_alone(const Store& store) {
    return FileLock(join_path(store.subdirectory("locks"), "use"), FileLock::Mode::exclusive,
                    std::chrono::milliseconds(0));
}

/// Deletes, or only says what it would delete, and adds up.
class Sweeper {
 public:
    /// What is deleted goes through the directory `doomed` of the same file system.
    Sweeper(std::string store, std::string doomed, bool dry_run)
        : store_(std::move(store)), doomed_(std::move(doomed)), dry_run_(dry_run) {}

    /// Delete the names in a directory whose first 64 characters are a digest that is not marked.
    void sweep(const std::string& kind, const std::string& directory, const Marked& marked) {
        for (const StoredFile& file : files_in(store_, directory)) {
            const std::string name(base_name(file.path));
            const bool digest = name.size() >= 64 && name.substr(0, 64).find_first_not_of(
                                                         "0123456789abcdef") == std::string::npos;
            if (digest && !marked.contains(name.substr(0, 64))) take(kind, file);
        }
    }
    void empty(const std::string& kind, const std::string& directory) {
        for (const StoredFile& file : files_in(store_, directory)) take(kind, file);
    }
    /// Delete what can be made again, least recently used first, until no more than that is left.
    void keep_within(uint64_t limit_bytes, std::optional<int64_t> spare_since) {
        uint64_t total_bytes = size_of_store(store_) - pending_bytes();
        std::vector<std::pair<std::string, StoredFile>> candidates;
        for (const auto& [kind, directory] : kMadeAgain)
            for (const StoredFile& file : files_in(store_, directory))
                if (!gone_.contains(file.path) && file.last_used < spare_since.value_or(INT64_MAX))
                    candidates.emplace_back(kind, file);
        std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
            return a.second.last_used < b.second.last_used;
        });
        for (const auto& [kind, file] : candidates) {
            if (total_bytes <= limit_bytes) return;
            if (!take(kind, file)) continue;
            total_bytes -= std::min(total_bytes, file.size_bytes);
        }
    }
    GcReport finish() {
        report_.kept_bytes = size_of_store(store_) - pending_bytes();
        return std::move(report_);
    }

 private:
    /// False for what stays: a squashfs, or an artifact's blob, that a container is started from.
    bool take(const std::string& kind, const StoredFile& file) {
        if (file.path.ends_with(kBootNote) && !is_left_over(file.path)) return false;
        std::optional<UniqueFd> claim;
        const bool started_from = kind == "squashfs" || kind == "blob";
        if (started_from && !(claim = claim_kept_file(join_path(store_, file.path)))) {
            log::verbose("{} is being started from: it is not deleted", file.path);
            return false;
        }
        if (!gone_.insert(file.path).second) return false;
        report_.deleted.push_back({kind, file.path, file.size_bytes});
        report_.freed_bytes += file.size_bytes;
        if (dry_run_) return true;
        // Killed meanwhile, we leave no tree behind that looks whole.
        const std::string doomed = join_path(doomed_, temporary_name());
        sys::renameat(AT_FDCWD, join_path(store_, file.path), AT_FDCWD, doomed);
        claim.reset();  // whoever opened it meanwhile sees that it is no longer there
        remove_tree(doomed);
        if (kind == "unpacked") remove_tree(join_path(store_, file.path + std::string(kBootNote)));
        return true;
    }
    /// A note goes with its layer and after it: a layer without one counts as whole.
    bool is_left_over(const std::string& note) const {
        const std::string path = join_path(store_, note);
        const std::string layer = path.substr(0, path.size() - kBootNote.size());
        return sys::stat_if_exists(AT_FDCWD, path) && !sys::stat_if_exists(AT_FDCWD, layer);
    }
    uint64_t pending_bytes() const { return dry_run_ ? report_.freed_bytes : 0; }

    std::string store_;
    std::string doomed_;
    bool dry_run_;
    GcReport report_;
    std::set<std::string> gone_;
};

/// Leftovers of write_file_atomic: whoever writes there holds the lock that we hold alone.
void sweep_unfinished(const std::string& directory) {
    auto dir = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!dir) return;
    for (const std::string& name : sys::list_directory(dir->get(), directory)) {
        const size_t dot = name.rfind(".json.");
        if (dot != std::string::npos && name.size() == dot + 12) remove_tree(dir->get(), name);
    }
}

}  // namespace

Store::Use::~Use() {
    elsewhere.reset();
    if (!lock) return;
    lock.reset();
    keep_store_within_limit(directory, began);
}

void Store::remove(const std::string& name) {
    std::string full = normalize_stored_name(name);
    try {
        const FileLock lock = lock_index(*this);
        LayoutWriter writer(join_path(directory_, "oci"), subdirectory("tmp"));
        if (!writer.remove_tag(full)) get(full);  // throws, with the names that come near
    } catch (const Error& error) {
        if (is_read_only(error)) throw read_only_store(directory_, error);
        throw;
    }
    GcOptions only_garbage;
    only_garbage.build_cache = false;
    if (!collect(only_garbage))
        log::info(
            "another slipway is adding to the store: what is no longer needed is deleted with the "
            "next image that is removed");
}

GcReport Store::collect_garbage(const GcOptions& options) {
    if (auto report = collect(options)) return std::move(*report);
    Error error(ErrorKind::busy,
                fmt::format("another slipway is using the store {}", slipway::quoted(directory_)));
    error.note("who adds to it: " + holder_of_lock(join_path(directory_, "locks/use")));
    error.hint("wait until it has ended, then: slipway gc");
    throw error;
}

void delete_unnamed(const Store& store, const std::vector<Digest>& blobs) {
    if (blobs.empty()) return;
    try {
        const FileLock alone = lock_alone(store);
        const FileLock index = lock_index(store);
        const std::string layout = join_path(store.directory(), "oci");
        const Marked marked = marked_by(read_layout_index(layout), *open_layout_blobs(layout),
                                        store.directory(), true);
        for (const Digest& blob : std::set<Digest>(blobs.begin(), blobs.end())) {
            if (marked.contains(blob.hex()) || !store.has_blob(blob)) continue;
            const std::string path = blob_path(layout, blob);
            if (const auto claim = claim_kept_file(path)) sys::unlinkat(AT_FDCWD, path);
        }
    } catch (const Error& error) {
        log::verbose("what was fetched stays in the store until \"slipway gc\": {}",
                     error.message());
    }
}

std::optional<GcReport> Store::collect(const GcOptions& options) {
    std::lock_guard guard(use_->mutex);
    use_->lock.reset();  // our own use would forbid it, too
    try {
        const FileLock alone = lock_alone(*this);
        const FileLock index = lock_index(*this);
        Sweeper sweeper(directory_, subdirectory("tmp"), options.dry_run);
        if (options.build_cache) {
            sweeper.empty("cache", "cache");
            sweeper.empty("partial", "partial");
        }
        const std::string layout = join_path(directory_, "oci");
        const Json names = read_layout_index(layout);
        const Json kept = without_stale(names, *blobs_);
        if (kept != names && !options.dry_run)
            LayoutWriter(layout, subdirectory("tmp")).write_index(kept);
        const Marked marked = marked_by(kept, *blobs_, directory_, !options.build_cache);
        if (!options.dry_run) {
            sweep_unfinished(join_path(directory_, "cache"));
            sweep_unfinished(layout);
        }
        sweeper.sweep("blob", "oci/blobs/sha256", marked);
        sweeper.sweep("unpacked", "unpacked", marked);
        sweeper.sweep("squashfs", "squashfs", marked);
        sweeper.sweep("pack", "packs", marked);
        if (options.keep_bytes) sweeper.keep_within(*options.keep_bytes, options.spare_since);
        return sweeper.finish();
    } catch (const Error& error) {
        if (is_read_only(error)) throw read_only_store(directory_, error);
        if (error.kind() != ErrorKind::busy) throw;
        return std::nullopt;
    }
}

}  // namespace slipway::image
