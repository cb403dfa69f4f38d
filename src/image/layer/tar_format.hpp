// The bytes of pax tar headers, for writing. Private to the image room.
#pragma once

#include <string>

#include "slipway/image/entry.hpp"

namespace slipway::image {

constexpr size_t kTarBlockBytes = 512;

/// Return the header blocks of an entry: a ustar header, before it a pax extended header if
/// something does not fit there (long or odd names, large numbers, xattrs). No user or group names,
/// no access times. Source: POSIX.1-2017 pax, "ustar Interchange Format".
std::string tar_header(const Entry& entry);

}  // namespace slipway::image
