// The staging part of the planner: which files are copied to which local disk.
#pragma once

#include "host_facts.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::runtime {

/// Let the plan copy the image file and the data packs, and mount the copies, if that was asked
/// for. With "auto", files that lie on a local disk already stay where they are.
/// Throws: Error(no_space) when no place can take them.
void plan_stage(const MountSpec& spec, const HostFacts& facts, const image::RunnableImage& image,
                RunPlan& plan);

}  // namespace slipway::runtime
