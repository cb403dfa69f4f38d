// The order in which a dataset's files are read. Private to the image room.
#pragma once

#include <memory>
#include <string>

#include "slipway/image/entry.hpp"

namespace slipway::image {

/// True when `a` comes before `b`, digits compared as numbers: "img2" before "img10".
bool natural_less(const std::string& a, const std::string& b);

/// Walk a directory of the host, parents first, the names of each directory in natural order.
std::unique_ptr<EntrySource> open_dataset_directory(const std::string& directory);

}  // namespace slipway::image
