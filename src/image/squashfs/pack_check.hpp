// Are the blocks that will be copied what their pack says?
#pragma once

#include <optional>
#include <vector>

#include "placement.hpp"

namespace slipway::image::squashfs {

/// Thrown for a cached pack whose blocks are not what they were.
struct DamagedPack {
    uint32_t number;
};

/// Read what will be copied from cached packs, on several threads, and compare each block with its
/// hash; the number of a pack that is damaged, if one is. Memory: 1 MiB a thread.
std::optional<uint32_t> find_damaged_pack(const Placement& placement,
                                          const std::vector<Pack>& packs, unsigned threads);

}  // namespace slipway::image::squashfs
