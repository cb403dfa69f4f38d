// The files of an image that the start of a plan's command asks for.
#pragma once

#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct StartFiles {
    std::vector<std::string> programs;  ///< where the command may be: the first that is there
    std::vector<std::string> files;
};

/// Pure. Nothing follows from a wrong guess but time.
StartFiles files_of_start(const RunPlan& plan);

}  // namespace slipway::runtime
