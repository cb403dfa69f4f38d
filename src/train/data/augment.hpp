// Small random deformations of training images, so that a network learns strokes, not pixels.
#pragma once

#include <cstdint>

#include "graph.hpp"

namespace slipway::train {

/// How far images are deformed, at most.
struct AugmentOptions {
    float rotation = 0.2f;  ///< radians
    float shear = 0.1f;     ///< sideways shift a unit of height
    float scale = 0.15f;    ///< relative
    float shift = 0.1f;     ///< relative to the image's extent
};

/// Deform one image of {channels, height, width} from `source` into `target`, bilinear, with
/// `outside` where nothing was. The deformation depends on `key` alone.
void augment(const float* source, float* target, const Shape& shape, float outside, uint64_t key,
             const AugmentOptions& options);

}  // namespace slipway::train
