// Archives that ADD unpacks.
#pragma once

#include <memory>
#include <string>

#include "slipway/image/entry.hpp"

namespace slipway::builder {

/// Open a file as a tar archive, plain or compressed with gzip, bzip2, xz or zstd; found by
/// content. nullptr if it is none. `fd` stays the caller's.
std::unique_ptr<image::EntrySource> open_archive(int fd, const std::string& subject);

}  // namespace slipway::builder
