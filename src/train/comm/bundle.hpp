// The program within a bundle: a directory tree with its own loader, C library and MPIs.
#pragma once

#include <string>

namespace slipway::train {

/// The directory of the running program.
std::string program_directory();

/// When running from a bundle, tell the bundled MPI where its parts are, before it is loaded; what
/// the image or the host said about its own MPI's places does not hold for ours. Elsewhere:
/// nothing.
void prepare_bundle_environment(const std::string& transport);

}  // namespace slipway::train
