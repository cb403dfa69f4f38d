// Which files of an image every start of a program reads.
#pragma once

#include <string_view>

namespace slipway::image::squashfs {

/// True of the C library's loader and the C library itself, the loader's cache, the accounts and
/// our own configuration. They are kept uncompressed, a few MB of any image: decompressing them
/// took longer than all else that a start waits for. `path` is a clean member path.
bool is_read_at_every_start(std::string_view path);

}  // namespace slipway::image::squashfs
