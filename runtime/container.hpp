// The executor: a plan's mounts, applied in a mount namespace of our own.
#pragma once

#include "fuse_server.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// Mount what the plan says and make it the process's root. `server`: of a squashfs image, waiting;
/// it is let go as soon as its file system is mounted. Null for a directory.
/// Pre: in a new user and mount namespace, single-threaded.
/// Throws: Error with the origin of the mount that failed.
void assemble_container(const RunPlan& plan, FuseServer* server);

}  // namespace slipway::runtime
