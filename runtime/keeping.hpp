// What assembling a container notes where its changes are kept: mount points to remove at its end.
#pragma once

#include <vector>

#include "fuse_server.hpp"
#include "tidy.hpp"

namespace slipway::runtime {

class Keeping {
 public:
    /// `scratch`: a tmpfs of the container's own, whose end is the container's.
    Keeping(const RunPlan& plan, const UniqueFd& scratch);
    /// Call before a mount point may be made.
    void before(const std::string& destination);
    /// Tie the scratch file system to the life of the mounts, once: below what will be attached to
    /// this directory.
    void mark(const UniqueFd& directory);
    /// Tell the server what to remove at the end.
    void hand_over(const std::vector<MountTree::Made>& made, FuseServer& server);

 private:
    std::string upper_;  ///< of a kept overlay, else ""
    const UniqueFd& scratch_;
    Leftovers leftovers_;
    bool marked_ = false;
};

}  // namespace slipway::runtime
