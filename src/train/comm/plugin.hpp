// Transports that live in a plugin of their own.
#pragma once

#include <memory>
#include <string>

#include "slipway/train/communicator.hpp"

namespace slipway::train {

/// Where the plugins are: ../lib/slipway beside the program, or ../lib in the bundle.
std::string plugin_path(const std::string& name);

/// Load libslipway-mpi-NAME.so and join its job.
/// Throws: Error(launcher) when it is not there, cannot be loaded, has another ABI or cannot start.
std::unique_ptr<Communicator> load_plugin(const std::string& name);

}  // namespace slipway::train
