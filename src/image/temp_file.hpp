// Temporary files whose owner can be told from the name, so that a killed process's files can be
// swept away without touching a living one's. Private to the image room.
#pragma once

#include <cstdint>
#include <string>

#include "slipway/base/fd.hpp"

namespace slipway {
class Error;
}

namespace slipway::image {

/// A name for something temporary: "<boot>-<pid namespace>-<pid>-<start time>-<number>". Unique on
/// this machine, and its owner can be looked up.
std::string temporary_name();

/// Remove from a directory what dead processes of this machine left (names of temporary_name), and
/// what is older than a day and comes from elsewhere; where a link of StagedTree is among it, the
/// tree that it leads to as well. Never throws: sweeping is a courtesy.
void sweep_temporary_files(const std::string& directory) noexcept;
/// The same for one file's predecessors: names "`path`.<temporary_name>" of this user.
void sweep_beside(const std::string& path) noexcept;

/// A file in `directory` that is removed by the destructor unless it was given its place.
class TempFile {
 public:
    explicit TempFile(const std::string& directory);
    ~TempFile();
    TempFile(const TempFile&) = delete;
    TempFile& operator=(const TempFile&) = delete;
    int fd() const { return fd_.get(); }
    const std::string& path() const { return path_; }
    /// Ask for the room that the file will need, where the file system can say. Throws:
    /// Error(no_space) with what is missing.
    void reserve(uint64_t size_bytes);
    /// Sync the file and rename it to `target` with `mode`.
    void commit(const std::string& target, unsigned mode = 0644);

 private:
    std::string path_;
    UniqueFd fd_;
};

/// To an error about a full disk, and to no other, add what is free where `path` is to be and, if
/// `needed_bytes` is not 0, what is missing; once.
void add_room_left(Error& error, const std::string& path, uint64_t needed_bytes = 0);

/// The mode of a file that is the user's own: `mode` cut by the umask.
unsigned user_mode(unsigned mode);

/// A new file that appears under its name whole or not at all. Where the file system has files
/// without a name, a kill at any instant leaves nothing; elsewhere it has the name
/// "<path>.<temporary_name>" and the next NewFile for that path sweeps it away.
class NewFile {
 public:
    explicit NewFile(const std::string& path);
    ~NewFile();
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    int fd() const { return fd_.get(); }
    /// Give the file its name, over what has that name. Syncs nothing.
    void commit(unsigned mode);
    /// Keep it without a name, for as long as the descriptor is open.
    UniqueFd into_unnamed();

 private:
    std::string path_, temporary_;  ///< temporary_: a name that is to be removed, if any
    UniqueFd fd_;
};

/// A directory made beside its final place, ".slipway-<temporary_name>"; removed by the destructor
/// unless it was given its place. A link in the store's tmp/ says where it is, so that the next
/// process that opens the store removes what a killed one left.
class StagedTree {
 public:
    StagedTree(const std::string& target, const std::string& store_temporary);
    ~StagedTree();
    StagedTree(const StagedTree&) = delete;
    StagedTree& operator=(const StagedTree&) = delete;
    const std::string& path() const { return path_; }
    /// Rename it to its target, which may be an empty directory.
    void commit();

 private:
    std::string target_, path_, link_;
};

}  // namespace slipway::image
