// Carries out a plan: each step from the cache or for real, then the image.
#pragma once

#include <map>
#include <string>

#include "context.hpp"
#include "plan.hpp"
#include "slipway/image/oci.hpp"
#include "step_cache.hpp"

namespace slipway::builder {

struct ExecuteInput {
    const BuildPlan& plan;
    const std::string& subject;  ///< the Dockerfile's name in errors
    const BuildContext& context;
    const std::map<std::string, image::OciImage>& bases;
    const std::map<std::string, std::string>& bundles;  ///< preload name -> directory
    bool use_cache = true;
};

struct ExecuteResult {
    image::ImageConfig config;  ///< with history and diff_ids
    std::vector<image::Layer> layers;
    size_t steps = 0;
    size_t cached_steps = 0;
};

/// Do it. A failing step leaves the store as it was, but for what earlier steps gave.
/// Throws: Error(command_failed) with the Dockerfile's line when a RUN fails.
ExecuteResult execute_plan(image::Store& store, const ExecuteInput& input);

}  // namespace slipway::builder
