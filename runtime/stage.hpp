// Copies of files on a local disk, made once per node.
#pragma once

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// Tell the plan's warnings and make the copies that it mounts, unless they are there. One process
/// of a node copies, under a lock on that disk; the others wait as long as it gets on. A copy
/// appears by rename, so whole or not at all; its SHA-256 lies beside it, in a file for sha256sum
/// -c. Older copies of the same source go. Pre: single-threaded; so it is again when the call
/// returns. Throws: Error(no_space), Error(busy) naming the process that does not get on, Error(io)
/// when the source changes meanwhile, Error(permission) when the directory is not ours alone.
void stage_files(const RunPlan& plan);

}  // namespace slipway::runtime
