// The executor: a plan's mounts, applied in a mount namespace of our own.
#pragma once

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// Mount what the plan says and make it the process's root. `fuse_fd` is an open /dev/fuse with a
/// server for squashfs images, else -1.
/// Pre: in a new user and mount namespace, single-threaded.
/// Throws: Error with the origin of the mount that failed.
void assemble_container(const RunPlan& plan, int fuse_fd);

}  // namespace slipway::runtime
