// A file tree as a stream of entries: what tar layers and directories have in common, and what
// every writer takes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "slipway/base/fd.hpp"

namespace slipway::image {

enum class EntryType {
    file,
    directory,
    symlink,
    hardlink,
    char_device,
    block_device,
    fifo,
    socket
};

/// One member of a tree or layer. A file's bytes follow by EntrySource::read.
struct Entry {
    EntryType type = EntryType::file;
    std::string path;   ///< clean member path: no leading "/", no "..", "" is the root
    uint32_t mode = 0;  ///< permission bits, setuid, setgid, sticky (07777)
    uint32_t uid = 0;
    uint32_t gid = 0;
    int64_t mtime = 0;        ///< seconds since the epoch
    uint64_t size_bytes = 0;  ///< of a file
    std::string link_target;  ///< symlink: as stored; hardlink: clean member path of the target
    uint32_t device_major = 0;
    uint32_t device_minor = 0;
    std::map<std::string, std::string> xattrs;
    bool stored_raw = false;  ///< a squashfs keeps its data as they are: compressed already
};

/// A stream of entries. next() skips whatever of the current file was not read.
class EntrySource {
 public:
    virtual ~EntrySource() = default;
    /// Move to the next entry; false at the end. Throws: Error(invalid_archive),
    /// Error(unsafe_path).
    virtual bool next(Entry& entry) = 0;
    /// Read bytes of the current file, in order; holes read as zeros; 0 at its end.
    virtual size_t read(void* data, size_t size_bytes) = 0;
};

/// Layer semantics of a member path (OCI image-spec layer.md, whiteouts).
struct Whiteout {
    enum class Kind { none, remove, opaque } kind = Kind::none;
    std::string
        path;  ///< remove: the path that goes; opaque: the directory whose older contents go
};
/// Throws: Error(invalid_archive) for a bare ".wh.".
Whiteout classify_whiteout(const std::string& path);

/// Read a layer blob: tar of any kind (v7, ustar, pax, GNU; sparse), plain or compressed with gzip
/// or zstd (found by content). `subject` names it in errors.
std::unique_ptr<EntrySource> open_layer(UniqueFd blob, const std::string& subject);

using OwnerOf = std::function<std::pair<uint32_t, uint32_t>(const std::string& path, uint32_t uid,
                                                            uint32_t gid)>;

/// Walk a directory of the host, sorted bytewise, parents first, hard links found by inode.
/// `owner_of` gives each path's owner in the image (absent: as on disk).
std::unique_ptr<EntrySource> open_directory(const std::string& directory, OwnerOf owner_of = {});
/// Walk an overlayfs upper directory as a layer: 0/0 character devices become ".wh." entries, the
/// opaque attribute (user.overlay.opaque) becomes ".wh..wh..opq", overlay's own attributes are left
/// out.
std::unique_ptr<EntrySource> open_overlay_upper(const std::string& directory,
                                                OwnerOf owner_of = {});

}  // namespace slipway::image
