// The planner of `slipway run`: specification, host and image in, plan out; nothing is touched.
#pragma once

#include "host_facts.hpp"
#include "plan_identity.hpp"
#include "run_spec.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::runtime {

/// Decide everything about a run; pure. `accounts` are the image's, needed where user_to_look_up()
/// names somebody. Throws: Error(usage) when there is nothing to run,
/// Error(unsupported) for --write with a squashfs file.
RunPlan plan_run(const RunSpec& spec, const HostFacts& facts, const image::RunnableImage& image,
                 const ImageAccounts& accounts = {});

/// The files that a plan holds open: who closes descriptors and applies the plan leaves them.
std::vector<int> descriptors_of(const RunPlan& plan);

/// Version of the session protocol; part of every session key.
inline constexpr int kSessionProtocol = 3;

}  // namespace slipway::runtime
