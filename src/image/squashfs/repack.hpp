// Fragment blocks of which most is dead: their living tails are gathered in new ones.
#pragma once

#include <cstdint>
#include <vector>

#include "pack_cache.hpp"
#include "placement.hpp"

namespace slipway::image::squashfs {

/// Tails that leave their fragment blocks, by their index in TailPlan::tails: pack by pack, in the
/// order in which they lie there, so that each block is decoded once.
using RepackPlan = std::vector<uint32_t>;
/// A block is left when less than half of what it holds is alive: a squashfs then never holds more
/// dead bytes of fragments than living ones, and what is compressed again is less than what is
/// saved.
RepackPlan plan_repack(const TailPlan& tails, const std::vector<Pack>& packs);

struct RepackReport {
    uint64_t blocks = 0;         ///< that were left
    uint64_t saved_bytes = 0;    ///< in the output
    uint64_t written_bytes = 0;  ///< beside the output
};
/// Carry out the plan: one pack more, to whose blocks the tails are led. The same plan gives the
/// same bytes on any number of threads. Memory: as pack_layer, and two blocks.
/// Throws: DamagedPack for a cached pack whose blocks are not what they were.
RepackReport repack_fragments(const RepackPlan& plan, TailPlan& tails, std::vector<Pack>& packs,
                              const PackCache& cache, const SquashfsOptions& options);

}  // namespace slipway::image::squashfs
