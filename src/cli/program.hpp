// What the starter and the full program have in common: from arguments to exit status.
#pragma once

#include <functional>

namespace slipway::cli {

/// ch-run, if that is the program's name, or what `slipway` does. Returns the exit status; errors
/// are told.
int run_program(int argc, char* argv[], const std::function<int()>& slipway);

}  // namespace slipway::cli
