// How large the store is, what in it can be made again, and when it was used. Private to the image
// room.
#pragma once

#include <ctime>
#include <string>
#include <vector>

namespace slipway::image {

/// A file or tree in one of the store's directories.
struct StoredFile {
    std::string path;         ///< relative to the store
    uint64_t size_bytes = 0;  ///< on the disk, all of a tree
    time_t last_used = 0;     ///< the later of its last reading and its last change
};

/// What lies in a directory of the store; empty if it is absent.
std::vector<StoredFile> files_in(const std::string& store, const std::string& directory);
uint64_t size_of_store(const std::string& store);

/// Kinds and directories of what is only kept to save time.
struct MadeAgain {
    const char* kind;
    const char* directory;
};
constexpr MadeAgain kMadeAgain[] = {
    {"pack", "packs"}, {"squashfs", "squashfs"}, {"unpacked", "unpacked"}, {"partial", "partial"}};

/// Delete by $SLIPWAY_STORE_LIMIT, if it is set and nobody else adds to the store, but nothing that
/// was used since `spare_since`. Never throws: it is tried again with the next command.
void keep_store_within_limit(const std::string& store, int64_t spare_since) noexcept;

/// A size as a user writes it: 500M, 20G, 20GB, 20GiB, bytes without a unit; units of 1,024.
/// Throws: Error(usage) naming `origin`.
uint64_t parse_size(const std::string& text, const std::string& origin);

/// Who holds a lock: what its file says, for people.
std::string holder_of_lock(const std::string& path);

}  // namespace slipway::image
