// What the launcher's environment says about the job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace slipway::train {

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

struct LauncherFacts {
    std::string name;    ///< "mpiexec of MPICH (Hydra)", for messages; "" when there is none
    std::string proof;   ///< the variable that told
    int size = 1;        ///< ranks declared; 0: several, the number is not told
    std::string plugin;  ///< the transport that fits: "mpich", "openmpi", or "" when none does
    std::string remedy;  ///< what to do when none fits
    bool several() const { return size != 1; }
};

/// Tell the launcher by its variables, the innermost first (mpirun within srun is mpirun). Pure.
LauncherFacts detect_launcher(const Environment& environment);

}  // namespace slipway::train
