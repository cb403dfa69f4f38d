// The program within a bundle: a directory tree with its own loader, C library and MPIs.
#pragma once

#include <string>

namespace slipway::train {

/// The directory of the running program.
std::string program_directory();

/// Keep the MPI off shared-memory mechanisms that need ptrace rights over the peers, which ranks in
/// separate user namespaces do not have. Only within a user namespace, and only where the user has
/// not chosen himself; our own shared memory carries the gradients in any case.
void prepare_for_user_namespace(const std::string& transport);

/// When running from a bundle, tell the bundled MPI where its parts are, before it is loaded; what
/// the image or the host said about its own MPI's places does not hold for ours. Elsewhere:
/// nothing.
void prepare_bundle_environment(const std::string& transport);

}  // namespace slipway::train
