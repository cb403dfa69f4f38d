// Makes the layer of a COPY, an ADD or a WORKDIR: straight from the sources, nothing is run.
#pragma once

#include <cstdint>
#include <optional>

#include "copy_items.hpp"
#include "image_tree.hpp"
#include "plan.hpp"

namespace slipway::builder {

struct LayerTimes {
    int64_t now = 0;               ///< for what has no time of its own
    std::optional<int64_t> clamp;  ///< SOURCE_DATE_EPOCH
};

/// Write the layer; std::nullopt if there is nothing to write.
std::optional<image::Layer> write_copy_layer(image::Store& store, const ImageTree& below,
                                             const FileTree& source, const CopyAction& action,
                                             const LayerTimes& times);
/// Write a layer with one directory, owned by `user`; std::nullopt if the image has it.
std::optional<image::Layer> write_directory_layer(image::Store& store, const ImageTree& below,
                                                  const std::string& directory,
                                                  const std::string& user, const LayerTimes& times);

}  // namespace slipway::builder
