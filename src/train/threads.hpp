// Threads and memory allocation of the process, fitted to the node.
#pragma once

#include <cstdint>

#include "slipway/train/communicator.hpp"

namespace slipway::train {

/// Threads for this rank: `requested`, or this rank's share of the CPUs it may run on. CPUs are
/// shared with the ranks of this node whose affinity overlaps ours; a step of few multiply-adds
/// gets fewer, since handing out the work would take longer than doing it. Collective.
int choose_threads(int requested, int64_t step_multiply_adds, Communicator& communicator);
/// Apply the choice to oneDNN's threads and our own loops; keep big blocks of memory in the
/// process.
void apply_threads(int threads);

}  // namespace slipway::train
