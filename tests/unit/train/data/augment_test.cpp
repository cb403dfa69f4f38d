// Deformations: none is none, the same key gives the same image, and ink stays in its range.
// Must not: train.
#include "data/augment.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"

using namespace slipway::train;

TEST_CASE("a deformation of nothing leaves the image") {
    std::vector<float> image(2 * 6 * 5), out(image.size());
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i);
    augment(image.data(), out.data(), {2, 6, 5}, -1, 99, {0, 0, 0, 0});
    for (size_t i = 0; i < image.size(); ++i) CHECK(out[i] == Approx(image[i]).margin(1e-3));
}

TEST_CASE("the key alone decides the deformation") {
    std::vector<float> image(64), a(64), b(64), c(64);
    for (size_t i = 0; i < 64; ++i) image[i] = i % 7 == 0 ? 1.0f : 0.0f;
    augment(image.data(), a.data(), {1, 8, 8}, 0, 1, {});
    augment(image.data(), b.data(), {1, 8, 8}, 0, 1, {});
    augment(image.data(), c.data(), {1, 8, 8}, 0, 2, {});
    CHECK(a == b);
    CHECK(a != c);
    const auto [low, high] = std::minmax_element(a.begin(), a.end());
    CHECK(*low >= 0);
    CHECK(*high <= 1);
}
