// Hands an image's layers to the squashfs writer.
// Must not: read a layer.
#include "layers.hpp"

#include <unistd.h>

#include "../oci/model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"

namespace slipway::image {
namespace {

std::string pack_directory(const Store& store) {
    try {
        const std::string directory = store.subdirectory("packs");
        if (::access(directory.c_str(), W_OK) != 0) return {};
        store.begin_use();
        return directory;
    } catch (const Error& error) {
        log::verbose("layers' packs are not kept: {}", error.message());
        return {};
    }
}

}  // namespace

std::vector<LayerInput> inputs_of(const OciImage& image) {
    std::vector<LayerInput> inputs;
    for (size_t i = 0; i < image.layers.size(); ++i) {
        const Layer& layer = image.layers[i];
        inputs.push_back(
            {layer.diff_id.hex(),
             [&image, i](Progress* progress) { return open_image_layer(image, i, progress); },
             layer.size_bytes});
    }
    return inputs;
}

SquashfsOptions with_packs_of(const Store& store, const OciImage& image, SquashfsOptions options) {
    options.pack_directory = pack_directory(store);
    options.pack_limit_bytes = pack_limit_from_environment();
    options.source = image.manifest_digest.text();
    return options;
}

}  // namespace slipway::image
