// The layers of an image as a squashfs is made of them, with what the store keeps. Private to the
// image room.
#pragma once

#include <vector>

#include "slipway/image/convert.hpp"
#include "slipway/image/squashfs.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// The image's layers, base first. `image` must outlive them.
std::vector<LayerInput> inputs_of(const OciImage& image);

/// `options`, for a squashfs of `image` whose packs the store keeps; while `store` lives, nobody
/// deletes them. A store that the caller may not write to keeps none.
SquashfsOptions with_packs_of(const Store& store, const OciImage& image, SquashfsOptions options);

}  // namespace slipway::image
