// Runs a RUN: the one place where the builder reaches the runtime.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "context.hpp"
#include "copy_layer.hpp"
#include "image_tree.hpp"
#include "plan.hpp"
#include "slipway/base/process.hpp"

namespace slipway::builder {

/// Where the mounts of a RUN come from.
struct MountSources {
    const BuildContext* context = nullptr;
    /// The merged files of another step's result.
    std::function<const ImageTree&(size_t step)> step_tree;
};

struct RunOutcome {
    ExitStatus status;
    std::optional<image::Layer> layer;  ///< absent if nothing changed, or the command failed
};

/// Run the command on top of `below` and take what it changed as a layer. A failing command leaves
/// nothing behind. Throws: Error(host_forbids) where RUN cannot work.
RunOutcome run_command_layer(image::Store& store, const ImageTree& below, const RunAction& action,
                             const MountSources& sources, const LayerTimes& times);

/// Run a program of the host as emulated root, on the host's own files.
ExitStatus run_as_emulated_root(const std::vector<std::string>& argv,
                                const std::vector<std::string>& environment,
                                const std::string& working_directory);

/// Throws: Error(host_forbids) with the remedy.
void require_run_support(const image::Store& store);

}  // namespace slipway::builder
