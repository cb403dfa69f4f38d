// The root directory of one build step: layers, devices, binds, and what must be gone afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mount_tree.hpp"
#include "slipway/runtime/step.hpp"

namespace slipway::runtime {

/// Lives in the step's first process, in its own user, mount and pid namespaces.
class StepRoot {
 public:
    /// Mount everything and make it the root. Throws: Error(host_forbids), SysError.
    explicit StepRoot(const StepRequest& request);
    /// Take away the mount points that were made, as far as they are still empty. Pre: no process
    /// of the step is left.
    void tidy();
    /// The environment's additions: where apt finds its configuration.
    const std::vector<std::string>& environment() const { return environment_; }

 private:
    void add_devices();
    void add_system(const StepRequest& request);
    void bind(const std::string& source, const std::string& destination, bool read_only,
              bool only_if_there);

    std::unique_ptr<MountTree> tree_;
    std::vector<std::string> mounted_;  ///< destinations, in order
    std::vector<std::string> environment_;
};

}  // namespace slipway::runtime
