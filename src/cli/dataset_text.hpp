// What pack and fetch say of a dataset that they have written.
#pragma once

#include <string>

#include "slipway/base/progress.hpp"
#include "slipway/image/dataset.hpp"

namespace slipway::cli {

/// Tell warnings and one line of numbers.
void tell_dataset(const std::string& output, const image::DatasetReport& report);

}  // namespace slipway::cli
