// Images that are one tree: a directory or a squashfs file. Private to the image room.
#pragma once

#include "slipway/image/convert.hpp"

namespace slipway::image {

/// A tree with its configuration. The stream leaves out what Slipway adds to an image, which every
/// writer adds in its own form.
struct TreeImage {
    LayerOpener open;
    ImageConfig config;
};

/// Open a directory, squashfs or SIF reference. In a directory the calling user's files become
/// root's, as an ordinary user's tree is meant; other owners stay.
TreeImage open_tree_image(const ImageRef& ref);

/// The tree as the one layer of an image, in a file without a name, compressed with gzip. The same
/// tree gives the same layer.
OciImage as_one_layer(const TreeImage& tree, std::optional<int64_t> source_date_epoch);

/// The config document of an image directory, if there is one.
std::optional<ImageConfig> read_directory_config(const std::string& directory,
                                                 ConfigScope scope = ConfigScope::all);

}  // namespace slipway::image
