// The process that serves a squashfs image, and its ties to the mount namespace it serves.
#pragma once

#include <vector>

#include "slipway/base/fd.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// True when the plan's image needs a server.
bool needs_server(const RunPlan& plan);

/// A server that waits until its file system is mounted. The kernel ends it when the last mount
/// namespace with that file system is gone.
struct FuseServer {
    UniqueFd fuse_fd;  ///< an open /dev/fuse: to be mounted, then closed; whoever kept it would
                       ///< turn the server's death from an error into a hang
    UniqueFd start;    ///< send one byte once it is mounted; closed without: the server ends
    UniqueFd pidfd;
};

/// Start the server. It keeps none of our descriptors and ignores what a launcher sends to end a
/// step gracefully.
/// Pre: in the new user namespace, still in the host's mount namespace; single-threaded.
/// Throws: Error(host_forbids) without a usable /dev/fuse; Error(invalid_image).
FuseServer start_fuse_server(const RunPlan& plan);
/// Let the server serve, and close our ends.
void release_server(FuseServer& server);

/// Turn this process into one without ties to who started it: own session, stdio on /dev/null,
/// all processors, graceful signals ignored, no descriptor but `kept`; `name` is what ps shows.
void become_background(const char* name, const std::vector<int>& kept);

}  // namespace slipway::runtime
