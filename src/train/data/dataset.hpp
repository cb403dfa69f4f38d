// Labelled images, and which of them each rank sees at each step.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/augment.hpp"
#include "graph.hpp"

namespace slipway::train {

/// Images as bytes with their labels.
struct LabelledImages {
    Shape shape;  ///< {channels, height, width}
    int64_t count = 0;
    std::vector<uint8_t> pixels;
    std::vector<uint8_t> labels;
};

/// A training and a test set of images of one shape.
struct Dataset {
    LabelledImages train;
    LabelledImages test;
    int64_t classes = 0;              ///< largest label plus one
    std::array<float, 256> scaled{};  ///< pixel value → zero mean, unit variance (of `train`)
};

/// Read train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k files, plain or ".gz".
/// Throws: Error(not_found) naming what is missing; Error(invalid_data) when files do not agree.
Dataset read_dataset(const std::string& directory);

/// The order in which an epoch visits `count` images; equal on every rank. Pure.
std::vector<uint32_t> epoch_order(uint64_t seed, int epoch, int64_t count);

/// The part [first, last) of `count` items that rank `rank` of `size` takes; parts differ by one at
/// most. Pure.
struct Part {
    int64_t first = 0;
    int64_t last = 0;
    int64_t size() const { return last - first; }
};
Part part_of(int64_t count, int rank, int size);

/// Fill `pixels` and `labels` with the images at `indices`, scaled.
void gather(const Dataset& dataset, const LabelledImages& images, std::span<const uint32_t> indices,
            float* pixels, int32_t* labels);

/// The same with every image deformed at random; `key` names the epoch and the seed.
void gather_augmented(const Dataset& dataset, const LabelledImages& images,
                      std::span<const uint32_t> indices, const AugmentOptions& options,
                      uint64_t key, float* pixels, int32_t* labels);

}  // namespace slipway::train
