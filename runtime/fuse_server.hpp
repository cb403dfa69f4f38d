// The process that serves squashfs files, and its ties to the mount namespace it serves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detached.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// True when the plan needs a server: for squashfs files, or to tidy up when all has ended.
bool needs_server(const RunPlan& plan);

/// A server that waits until its file systems are mounted. The kernel ends it when the last mount
/// namespace with them is gone.
struct FuseServer {
    struct Device {
        size_t step;  ///< the mount's place in the plan
        UniqueFd fd;  ///< an open /dev/fuse: to be mounted, then closed; whoever kept it would
                      ///< turn the server's death from an error into a hang
    };
    std::vector<Device> devices;
    UniqueFd start;  ///< tells it what is mounted; closed: there is no more to come
    UniqueFd pidfd;  ///< see take_server_pidfd()
    std::optional<DetachedFork> forked;
};

/// Start the one server of all squashfs files of a plan. It keeps none of our descriptors and
/// ignores what a launcher sends to end a step gracefully. Where changes are kept, it holds their
/// lock as long as the container lives, and removes the container's mount points afterwards.
/// Pre: in the new user namespace, still in the host's mount namespace; single-threaded.
/// Throws: Error(host_forbids) without a usable /dev/fuse; Error(invalid_image) naming the option
/// of a data pack; Error(busy) for an overlay that another container has.
FuseServer start_fuse_server(const RunPlan& plan);
/// The server's pidfd, which it sends us as soon as it runs; empty when it has ended before.
UniqueFd take_server_pidfd(FuseServer& server);
/// Whether it has, or does so in a moment: who uses its mount is told a little before we are.
bool server_has_ended(FuseServer& server);
/// The device to mount for a step. Pre: the step is a squashfs file.
int fuse_device(const FuseServer& server, size_t step);
/// Let the server serve what is mounted now, and close our end of the device.
void release_device(FuseServer& server, size_t step);
/// Hand over what to remove when `watch` (inotify) says that the container's mounts are gone.
void send_leftovers(FuseServer& server, const std::string& text, const UniqueFd& watch);

}  // namespace slipway::runtime
