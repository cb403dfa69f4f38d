// Finds the four files of a data directory, checks that they agree, and deals images to ranks.
// Must not: train, or know more of the ranks than their number.
#include "data/dataset.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/idx.hpp"
#include "random.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::train {

namespace {

std::string find_part(const std::string& directory, const std::string& part, int dimensions) {
    const std::string dash = fmt::format("{}-idx{}-ubyte", part, dimensions);
    const std::string dot = fmt::format("{}.idx{}-ubyte", part, dimensions);
    for (const std::string& name : {dash, dash + ".gz", dot, dot + ".gz"}) {
        std::string path = join_path(directory, name);
        if (sys::stat_if_exists(AT_FDCWD, path)) return path;
    }
    throw Error(ErrorKind::not_found,
                fmt::format("no {} or {}.gz in {}", dash, dash, slipway::quoted(directory)))
        .hint("give --data a directory with the four files of a data set in MNIST's format");
}

LabelledImages read_images(const std::string& directory, const std::string& part) {
    const std::string image_path = find_part(directory, part + "-images", 3);
    const std::string label_path = find_part(directory, part + "-labels", 1);
    IdxArray images = read_idx(image_path);
    IdxArray labels = read_idx(label_path);
    if (images.extents.size() < 3)
        throw Error(ErrorKind::invalid_data,
                    fmt::format("{} has {} dimensions where images have 3 or 4",
                                slipway::quoted(image_path), images.extents.size()));
    if (labels.extents.size() != 1)
        throw Error(ErrorKind::invalid_data,
                    fmt::format("{} has {} dimensions where labels have 1",
                                slipway::quoted(label_path), labels.extents.size()));
    if (images.extents[0] != labels.extents[0])
        throw Error(ErrorKind::invalid_data,
                    fmt::format("{} images but {} labels", images.extents[0], labels.extents[0]))
            .note("images: " + slipway::quoted(image_path))
            .note("labels: " + slipway::quoted(label_path));
    LabelledImages result;
    result.count = images.extents[0];
    result.shape.assign(images.extents.begin() + 1, images.extents.end());
    if (result.shape.size() == 2) result.shape.insert(result.shape.begin(), 1);
    result.pixels = std::move(images.values);
    result.labels = std::move(labels.values);
    return result;
}

std::array<float, 256> scale_table(const std::vector<uint8_t>& pixels) {
    std::array<double, 256> counts{};
    for (uint8_t pixel : pixels) counts[pixel] += 1;
    double sum = 0, squares = 0;
    for (int value = 0; value < 256; ++value) {
        sum += counts[value] * value;
        squares += counts[value] * value * value;
    }
    const double mean = sum / static_cast<double>(pixels.size());
    const double deviation = std::sqrt(squares / static_cast<double>(pixels.size()) - mean * mean);
    std::array<float, 256> table;
    for (int value = 0; value < 256; ++value)
        table[value] = static_cast<float>((value - mean) / (deviation > 0 ? deviation : 1));
    return table;
}

}  // namespace

Dataset read_dataset(const std::string& directory) {
    Dataset dataset;
    dataset.train = read_images(directory, "train");
    dataset.test = read_images(directory, "t10k");
    if (dataset.train.shape != dataset.test.shape)
        throw Error(ErrorKind::invalid_data,
                    fmt::format("training images are {}, test images {}",
                                shape_text(dataset.train.shape), shape_text(dataset.test.shape)))
            .note("in " + slipway::quoted(directory));
    uint8_t largest = 1;
    for (const auto* labels : {&dataset.train.labels, &dataset.test.labels})
        largest = std::max(largest, *std::max_element(labels->begin(), labels->end()));
    dataset.classes = largest + 1;
    dataset.scaled = scale_table(dataset.train.pixels);
    return dataset;
}

std::vector<uint32_t> epoch_order(uint64_t seed, int epoch, int64_t count) {
    std::vector<uint32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0u);
    Random random(seed, 0x9e3779b97f4a7c15u + static_cast<uint64_t>(epoch));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
}

Part part_of(int64_t count, int rank, int size) {
    return {count * rank / size, count * (rank + 1) / size};
}

void gather(const Dataset& dataset, const LabelledImages& images, std::span<const uint32_t> indices,
            float* pixels, int32_t* labels) {
    const auto size = static_cast<size_t>(element_count(images.shape));
    for (uint32_t index : indices) {
        const uint8_t* image = images.pixels.data() + index * size;
        for (size_t i = 0; i < size; ++i) pixels[i] = dataset.scaled[image[i]];
        pixels += size;
        *labels++ = images.labels[index];
    }
}

void gather_augmented(const Dataset& dataset, const LabelledImages& images,
                      std::span<const uint32_t> indices, const AugmentOptions& options,
                      uint64_t key, float* pixels, int32_t* labels) {
    const auto size = static_cast<size_t>(element_count(images.shape));
    std::vector<float> plain(size);
    for (uint32_t index : indices) {
        gather(dataset, images, {&index, 1}, plain.data(), labels++);
        augment(plain.data(), pixels, images.shape, dataset.scaled[0], key + index, options);
        pixels += size;
    }
}

}  // namespace slipway::train
