// What the builder needs of the runtime: one command in a writable stack of layers, as emulated
// root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/base/process.hpp"

namespace slipway::runtime {

struct StepBind {
    std::string source;
    std::string destination;
    bool read_only = true;
};

/// One RUN. The layers are overlay lowers (newest last), `upper` takes the changes, `work` is
/// overlayfs's own; all on one local file system.
struct StepRequest {
    std::vector<std::string> layers;  ///< base first; may be empty only with `root`
    std::string upper;
    std::string work;
    std::string root;  ///< instead of an overlay: a plain directory that is changed in place
    std::vector<std::string> argv;
    std::vector<std::string> environment;  ///< "K=V": all of it
    std::string working_directory = "/";
    std::string input;            ///< on stdin (heredocs)
    uint32_t uid = 0, gid = 0;    ///< inside; anything but 0 is emulated
    bool network = true;          ///< host network, or none
    std::vector<StepBind> binds;  ///< beside /dev, /proc, /sys, resolv.conf, hosts
};

/// Run it in a new user and mount namespace with uid 0 mapped to the caller and privileged calls
/// emulated; waits, and kills everything it started. stdout goes to our stderr. The upper layer is
/// not synced: whoever keeps it does that once. Mount points made for the step are taken away again
/// if they are still empty. With root "/", host programs run on the host's own files, unpivoted.
/// Ownership set by the command is forgotten. Throws: Error(host_forbids) when the kernel lacks
/// what this needs; the exit status of an Error is 126 or 127 when the command could not be
/// executed.
ExitStatus run_step(const StepRequest& request);

/// Throws Error(host_forbids) with the remedy if run_step cannot work here; `store` is where the
/// layers will be.
void require_step_support(const std::string& store);

}  // namespace slipway::runtime
