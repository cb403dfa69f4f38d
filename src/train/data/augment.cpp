// Random affine deformations.
// Must not: keep state; the same key gives the same image on any rank.
#include "data/augment.hpp"

#include <cmath>

#include "random.hpp"

namespace slipway::train {

namespace {

// Where an output pixel comes from: (x, y) relative to the centre ↦ matrix · (x, y) + shift.
struct Affine {
    float xx, xy, yx, yy, x, y;
};

Affine random_affine(uint64_t key, float width, float height, const AugmentOptions& options) {
    Random random(key, 0x5851f42d4c957f2du);
    const auto within = [&](float limit) {
        return static_cast<float>(2 * random.uniform() - 1) * limit;
    };
    const float angle = within(options.rotation);
    const float shear = within(options.shear);
    const float wide = 1 + within(options.scale);
    const float high = 1 + within(options.scale);
    const float c = std::cos(angle), s = std::sin(angle);
    Affine map{};
    map.xx = c * wide;
    map.xy = (c * shear - s) * high;
    map.yx = s * wide;
    map.yy = (s * shear + c) * high;
    map.x = within(options.shift) * width;
    map.y = within(options.shift) * height;
    return map;
}

float sample(const float* plane, int64_t width, int64_t height, float x, float y, float outside) {
    const auto left = static_cast<int64_t>(std::floor(x));
    const auto top = static_cast<int64_t>(std::floor(y));
    const float right_part = x - static_cast<float>(left), low_part = y - static_cast<float>(top);
    const auto at = [&](int64_t column, int64_t row) {
        const bool inside = column >= 0 && column < width && row >= 0 && row < height;
        return inside ? plane[row * width + column] : outside;
    };
    const float upper = at(left, top) * (1 - right_part) + at(left + 1, top) * right_part;
    const float lower = at(left, top + 1) * (1 - right_part) + at(left + 1, top + 1) * right_part;
    return upper * (1 - low_part) + lower * low_part;
}

}  // namespace

void augment(const float* source, float* target, const Shape& shape, float outside, uint64_t key,
             const AugmentOptions& options) {
    const int64_t channels = shape[0], height = shape[1], width = shape[2];
    const float centre_x = static_cast<float>(width - 1) / 2;
    const float centre_y = static_cast<float>(height - 1) / 2;
    const Affine map =
        random_affine(key, static_cast<float>(width), static_cast<float>(height), options);
    for (int64_t channel = 0; channel < channels; ++channel) {
        const float* plane = source + channel * height * width;
        for (int64_t row = 0; row < height; ++row) {
            const float y = static_cast<float>(row) - centre_y;
            for (int64_t column = 0; column < width; ++column) {
                const float x = static_cast<float>(column) - centre_x;
                *target++ = sample(plane, width, height, map.xx * x + map.xy * y + map.x + centre_x,
                                   map.yx * x + map.yy * y + map.y + centre_y, outside);
            }
        }
    }
}

}  // namespace slipway::train
