// Answers to READDIR and READDIRPLUS.
#pragma once

#include <fuse3/fuse_lowlevel.h>

#include <array>
#include <mutex>
#include <vector>

#include "served_tree.hpp"

namespace slipway::image::squashfs {

/// Whether listings should bring the attributes of files. Directories' are always brought: a walk
/// descends into them. Files' cost an inode of the kernel each, and save a LOOKUP each where the
/// walk looks at them; whether it does shows in the LOOKUPs that follow a listing without them.
class Listings {
 public:
    /// A directory is about to be listed from its beginning. Returns whether with its files.
    bool wants_files(uint64_t directory);
    /// A file was looked up by its name.
    void file_was_looked_up(uint64_t directory);

 private:
    std::mutex mutex_;
    std::array<uint64_t, 64> without_files_ = {};  // listed of late, node ids
    size_t next_ = 0;
    unsigned left_ = 2;  // listings that will bring files' attributes: a start looks at few
};

/// One reply, as large as it may be. `plus`: with attributes. The entries that the kernel will know
/// from it are added to `known`. Throws: Error(invalid_image).
std::vector<char> list_directory(Server& server, fuse_req_t request, const InodeInfo& directory,
                                 uint64_t node, size_t size_bytes, uint64_t offset, bool plus,
                                 bool with_files,
                                 std::vector<std::pair<uint64_t, InodeInfo>>& known);

}  // namespace slipway::image::squashfs
