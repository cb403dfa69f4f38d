// Gradient reduction through memory that the ranks of one node share.
#pragma once

#include <memory>

#include "slipway/train/communicator.hpp"

namespace slipway::train {

/// Put shared memory on top of a communicator whose ranks are all on this node: gradients are
/// summed directly from every rank's arena (each rank sums a share, all read the result; two
/// meetings a call, no copies). Everything else stays with `inner`. If the memory cannot be shared
/// (separate network namespaces, for example), all ranks go on with `inner` alone.
std::unique_ptr<Communicator> with_shared_memory(std::unique_ptr<Communicator> inner);

}  // namespace slipway::train
