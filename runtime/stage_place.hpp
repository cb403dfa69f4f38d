// Which files can be staged, and where to: facts, probed once; made up in tests.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace slipway::runtime {

struct FileFacts {
    std::string identity;  ///< device, inode, size and time of change of contents
    uint64_t size_bytes = 0;
    bool regular = true;
    std::string shared_on;  ///< the network file system's name, "" on a local one
    std::string seal;       ///< that was verified
};

/// A directory that might take staged files.
struct StagePlace {
    std::string path;
    std::string why;      ///< "$SLURM_TMPDIR", "--stage"
    std::string problem;  ///< "is not there", "lies on NFS, which all nodes share"; "" = usable
    uint64_t free_bytes = 0;
    std::set<std::string> staged;  ///< names of our files that are there already
};

/// Look at a file. Returns std::nullopt if it is not there.
std::optional<FileFacts> probe_file(const std::string& path);
/// Look at `choice`, or with "auto" at the usual local disks, the best first.
std::vector<StagePlace> probe_stage_places(const std::string& choice);

/// Where in a place staged files lie: a directory of the user's own.
std::string stage_directory(const std::string& place, uint32_t uid);

/// The name of a network file system by statfs(2)'s f_type, "" for a local one.
std::string shared_file_system(uint64_t type);

}  // namespace slipway::runtime
