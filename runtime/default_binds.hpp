// What of the host every container sees.
#pragma once

#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct DefaultBind {
    std::string path;
    bool read_only = false;
    MountStep::IfMissing if_missing = MountStep::IfMissing::create;
    std::string reason;
};

/// The policy, as rows with reasons. The home directory is not among them: what lies there (dot
/// files, ~/.local/lib/python*) breaks images; ask for it with --bind.
const std::vector<DefaultBind>& default_binds();

}  // namespace slipway::runtime
