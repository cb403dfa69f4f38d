// The process that serves a squashfs image, and its ties to the mount namespace it serves.
#pragma once

#include <optional>

#include "detached.hpp"
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
    UniqueFd pidfd;    ///< see take_server_pidfd()
    std::optional<DetachedFork> forked;
};

/// Start the server. It keeps none of our descriptors and ignores what a launcher sends to end a
/// step gracefully.
/// Pre: in the new user namespace, still in the host's mount namespace; single-threaded.
/// Throws: Error(host_forbids) without a usable /dev/fuse; Error(invalid_image).
FuseServer start_fuse_server(const RunPlan& plan);
/// Let the server serve, and close our FUSE descriptor.
void release_server(FuseServer& server);
/// The server's pidfd, which it sends us as soon as it runs; empty when it has ended before.
UniqueFd take_server_pidfd(FuseServer& server);
bool server_has_ended(FuseServer& server);

}  // namespace slipway::runtime
