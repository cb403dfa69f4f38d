// The mount part of the planner: image, overlay, defaults, binds, data packs.
#pragma once

#include <vector>

#include "environment.hpp"
#include "host_facts.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::runtime {

/// The image, its overlay and what every container sees of the host. Throws: Error(unsupported)
/// for --write with a squashfs file.
std::vector<MountStep> plan_image_mounts(const MountSpec& spec, const HostFacts& facts,
                                         const image::RunnableImage& image);

/// What was asked for beyond that: home, binds, data packs; in this order, but a pack comes before
/// the binds that lie inside of it. Throws: Error(not_found) with the origin.
std::vector<MountStep> plan_requested_mounts(const MountSpec& spec, const HostFacts& facts);

/// The host's own root as an image.
MountStep host_root_step();
/// The mounts of the image "/": none, or the host's root and what was asked for.
/// Throws: Error(unsupported) for an overlay.
std::vector<MountStep> plan_host_mounts(const MountSpec& spec, const HostFacts& facts);

/// Tells whether a host path is seen under the same name: some bind shows it where it was.
/// Pre: `mounts` outlives the answer.
Visible visible_through(const std::vector<MountStep>& mounts);

}  // namespace slipway::runtime
