// Writing a pack from the streams of its parts. Private to the image room.
#pragma once

#include <functional>

#include "source.hpp"

namespace slipway::image {

using PartsOpener = std::function<DatasetSource::Parts()>;

/// Write a pack of what the parts hold, in their order.
DatasetReport write_dataset(const PartsOpener& open_parts, const DatasetDescription& about,
                            const std::string& output, const SquashfsOptions& options);

}  // namespace slipway::image
