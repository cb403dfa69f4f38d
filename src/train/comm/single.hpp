// A job of one process.
#pragma once

#include <memory>

#include "slipway/train/communicator.hpp"

namespace slipway::train {

std::unique_ptr<Communicator> make_single();

}  // namespace slipway::train
