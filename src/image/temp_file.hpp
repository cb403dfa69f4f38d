// Temporary files whose owner can be told from the name, so that a killed process's files can be
// swept away without touching a living one's. Private to the image room.
#pragma once

#include <string>

#include "slipway/base/fd.hpp"

namespace slipway::image {

/// A name for something temporary: "<boot>-<pid namespace>-<pid>-<start time>-<number>". Unique on
/// this machine, and its owner can be looked up.
std::string temporary_name();

/// Remove from a directory what dead processes of this machine left (names of temporary_name), and
/// what is older than a day and comes from elsewhere. Never throws: sweeping is a courtesy.
void sweep_temporary_files(const std::string& directory) noexcept;

/// A file in `directory` that is removed by the destructor unless it was given its place.
class TempFile {
 public:
    explicit TempFile(const std::string& directory);
    ~TempFile();
    TempFile(const TempFile&) = delete;
    TempFile& operator=(const TempFile&) = delete;
    int fd() const { return fd_.get(); }
    const std::string& path() const { return path_; }
    /// Sync the file and rename it to `target` with `mode`.
    void commit(const std::string& target, unsigned mode = 0644);

 private:
    std::string path_;
    UniqueFd fd_;
};

}  // namespace slipway::image
