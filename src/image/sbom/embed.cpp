// Writes squashfs files that hold the list of their own software.
// Must not: change anything else of an image.
#include <fmt/format.h>

#include "../layer/tree_source.hpp"
#include "../oci/model.hpp"
#include "../store/layers.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/artifact.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/sbom.hpp"

namespace slipway::image {
namespace {

/// Put the document on top of an image's layers and write them all.
SquashfsReport write_listed(std::vector<LayerInput> layers, const ImageConfig& config,
                            const std::string& output, const SquashfsOptions& options) {
    std::vector<LayerOpener> openers;
    for (const auto& layer : layers) openers.push_back([&layer] { return layer.open(nullptr); });
    const SoftwareInventory inventory = read_inventory(openers);
    const int64_t time = options.source_date_epoch.value_or(document_time());
    std::string name(base_name(output));
    name.resize(std::min(name.size(), name.rfind('.')));
    const LayerOpener list = sbom_layer(spdx_document(inventory, name, time), time);
    layers.push_back({"", [list](Progress*) { return list(); }});
    SquashfsReport report = write_squashfs(layers, config, output, options);
    report.warnings.insert(report.warnings.end(), inventory.warnings.begin(),
                           inventory.warnings.end());
    return report;
}

}  // namespace

SquashfsReport write_squashfs_with_sbom(const OciImage& image, const std::string& output,
                                        const Store& store, SquashfsOptions options) {
    return write_listed(inputs_of(image), image.config, output,
                        with_packs_of(store, image, std::move(options)));
}

SquashfsReport convert_with_sbom(const std::string& source, const std::string& destination,
                                 const Store& store, const SquashfsOptions& options,
                                 const std::string& platform) {
    if (!destination.ends_with(".sqfs") && !destination.ends_with(".squashfs"))
        throw Error(ErrorKind::usage, fmt::format("a list of software is put into squashfs files "
                                                  "only, and {} names none",
                                                  slipway::quoted(destination)))
            .note("requested by: --sbom")
            .hint("write FILE.sqfs; of other images: slipway sbom IMAGE");
    if (sys::stat_if_exists(AT_FDCWD, destination))
        throw Error(ErrorKind::already_exists,
                    fmt::format("{} is there already", slipway::quoted(destination)))
            .hint("remove it first, or choose another name");
    ImageRef ref = parse_image_ref(source);
    ref.platform = platform;
    if (ref.kind != RefKind::directory && ref.kind != RefKind::squashfs &&
        ref.kind != RefKind::sif) {
        const Content content = open_content(ref, store);
        if (content.image)
            return write_squashfs_with_sbom(*content.image, destination, store, options);
        ref = file_of(*content.artifact, ref, store);
    }
    const TreeImage tree = open_tree_image(ref);
    return write_listed({{"", [&tree](Progress*) { return tree.open(); }}}, tree.config,
                        destination, options);
}

}  // namespace slipway::image
