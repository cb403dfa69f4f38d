// Converts between image formats: any source as layers or as one tree, then into the destination.
// Must not: write anything at the destination's name before it is whole.
#include "slipway/image/convert.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "oci_model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/registry.hpp"
#include "temp_file.hpp"
#include "tree_source.hpp"

namespace slipway::image {
namespace {

enum class Target { squashfs, layout, directory, store };

struct Destination {
    Target kind = Target::directory;
    std::string path;
    std::string name;  ///< tag, or stored name
};

constexpr const char* kPossible =
    "a destination is FILE.sqfs, oci:DIR[:TAG], a directory, or store:NAME";

Destination parse_destination(const std::string& text) {
    auto after = [&](std::string_view scheme) { return text.substr(scheme.size()); };
    if (text.empty()) {
        throw Error(ErrorKind::usage, "the destination is empty").hint(kPossible);
    }
    if (text.starts_with("store:")) {
        return {Target::store, {}, normalize_stored_name(after("store:"))};
    }
    if (text.starts_with("oci:")) {
        std::string path = after("oci:"), tag;
        size_t colon = path.rfind(':');
        if (colon != std::string::npos && path.find('/', colon) == std::string::npos) {
            tag = path.substr(colon + 1);
            path.resize(colon);
        }
        if (path.empty()) throw Error(ErrorKind::usage, "oci: needs a directory").hint(kPossible);
        return {Target::layout, path, tag.empty() ? "latest" : tag};
    }
    if (text.starts_with("docker-archive:")) {
        throw Error(ErrorKind::unsupported, fmt::format("cannot write {}", slipway::quoted(text)))
            .hint(kPossible);
    }
    if (text.starts_with("docker://")) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("convert does not write {}", slipway::quoted(text)))
            .hint(fmt::format("push the image: slipway push SOURCE {}", text));
    }
    if (text.ends_with(".sif")) {
        throw Error(ErrorKind::unsupported, "SIF files are not written").hint(kPossible);
    }
    if (text.ends_with(".sqfs") || text.ends_with(".squashfs")) return {Target::squashfs, text, {}};
    return {Target::directory, text, {}};
}

[[noreturn]] void in_the_way(const std::string& path, const std::string& why) {
    throw Error(ErrorKind::already_exists, fmt::format("{} {}", slipway::quoted(path), why))
        .hint("remove it first, or choose another name");
}

void check_destination(const Destination& destination) {
    if (destination.kind == Target::store || destination.kind == Target::layout) return;
    auto status = sys::stat_if_exists(AT_FDCWD, destination.path);
    if (!status) {
        std::string parent(parent_path(absolute_path(destination.path)));
        if (!sys::stat_if_exists(AT_FDCWD, parent)) {
            throw Error(ErrorKind::not_found, fmt::format("there is no directory {} to write into",
                                                          slipway::quoted(parent)));
        }
        return;
    }
    if (destination.kind == Target::squashfs) in_the_way(destination.path, "is there already");
    if (!S_ISDIR(status->st_mode)) in_the_way(destination.path, "is there and is no directory");
    UniqueFd fd = sys::open(destination.path, O_RDONLY | O_DIRECTORY);
    if (!sys::list_directory(fd.get(), destination.path).empty()) {
        in_the_way(destination.path, "is not empty");
    }
}

/// What is converted: an image of layers, or a tree with its config.
struct Source {
    std::optional<OciImage> layered;
    TreeImage tree;
};

Source open_source(const std::string& text, const Store& store) {
    ImageRef ref = parse_image_ref(text);
    Source source;
    if (ref.kind == RefKind::directory || ref.kind == RefKind::squashfs ||
        ref.kind == RefKind::sif) {
        source.tree = open_tree_image(ref);
    } else {
        source.layered = open_layered(ref, store);
    }
    return source;
}

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

std::string describe(const std::string& what, uint64_t size_bytes) {
    return fmt::format("wrote {} ({})", what, human_bytes(size_bytes));
}

/// What a conversion to squashfs took at its peak, besides the file.
std::string cost_of(const SquashfsReport& report) {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    return fmt::format("; {} files of {}; at most {} of memory and {} of disk beside the file",
                       report.inodes, human_bytes(report.input_bytes),
                       human_bytes(static_cast<uint64_t>(usage.ru_maxrss) * 1024),
                       human_bytes(report.packed_bytes));
}

ConvertReport to_squashfs(const Source& source, const Destination& destination, const Store& store,
                          const SquashfsOptions& options) {
    SquashfsReport report = source.layered
                                ? write_squashfs(*source.layered, destination.path, store, options)
                                : write_squashfs(std::vector<LayerOpener>{source.tree.open},
                                                 source.tree.config, destination.path, options);
    return {describe(destination.path, report.output_bytes) + cost_of(report), report.warnings};
}

/// Write a tree as one gzip layer through `put`, which gives the file its place.
Layer write_tree_layer(const TreeImage& tree, int fd, const SquashfsOptions& options) {
    LayerWriter writer(fd, LayerCompression::gzip, options.source_date_epoch);
    writer.add_all(*tree.open());
    return writer.finish();
}

ConvertReport to_store(const Source& source, const Destination& destination, const Store& store,
                       const SquashfsOptions& options) {
    Store target = store;
    OciImage image;
    if (source.layered) {
        image = target.import(destination.name, *source.layered);
    } else {
        Layer layer =
            target.add_layer([&](int fd) { return write_tree_layer(source.tree, fd, options); });
        image = target.tag(destination.name, source.tree.config, {layer});
    }
    uint64_t size_bytes = 0;
    for (const Layer& layer : image.layers) size_bytes += layer.size_bytes;
    return {fmt::format("stored {} ({})", destination.name, human_bytes(size_bytes)), {}};
}

ConvertReport to_layout(const Source& source, const Destination& destination,
                        const SquashfsOptions& options) {
    bool was_there = sys::stat_if_exists(AT_FDCWD, destination.path).has_value();
    std::string blobs = join_path(destination.path, "blobs/sha256");
    uint64_t size_bytes = 0;
    try {
        if (source.layered) {
            write_oci_layout(*source.layered, destination.path, destination.name);
            for (const Layer& layer : source.layered->layers) size_bytes += layer.size_bytes;
        } else {
            LayoutWriter writer(destination.path, blobs);
            TempFile file(blobs);
            Layer layer = write_tree_layer(source.tree, file.fd(), options);
            file.commit(blob_path(destination.path, layer.digest));
            ImageConfig config = source.tree.config;
            config.diff_ids = {layer.diff_id};
            Descriptor document = writer.put(to_text(config_to_json(config)), kConfigType);
            writer.set_tag(destination.name,
                           writer.put(to_text(make_manifest(document, {layer})), kManifestType));
            size_bytes = layer.size_bytes;
        }
    } catch (...) {
        if (!was_there) remove_tree(destination.path);
        throw;
    }
    return {describe(fmt::format("oci:{}:{}", destination.path, destination.name), size_bytes), {}};
}

void add_counts(const UnpackReport& report, UnpackReport& sum) {
    sum.entries += report.entries;
    sum.owners_not_kept += report.owners_not_kept;
    sum.devices_not_made += report.devices_not_made;
}

void write_config(const std::string& directory, const ImageConfig& config) {
    Root root(directory);
    UniqueFd parent = root.open_parent(kConfigPathInImage, true);
    // Whatever an image has at that name is replaced, never written through.
    remove_tree(parent.get(), std::string(base_name(kConfigPathInImage)));
    UniqueFd file = sys::openat(parent.get(), std::string(base_name(kConfigPathInImage)),
                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    std::string text = to_text(config_to_json(config));
    sys::write_all(file.get(), text.data(), text.size(), kConfigPathInImage);
}

ConvertReport to_directory(const Source& source, const Destination& destination) {
    std::string target = absolute_path(destination.path);
    while (target.size() > 1 && target.back() == '/') target.pop_back();
    TempDir temporary(std::string(parent_path(target)), ".slipway-");
    sys::fchmodat(AT_FDCWD, temporary.path(), 0755);
    UnpackReport sum;
    if (source.layered) {
        for (size_t i = 0; i < source.layered->layers.size(); ++i) {
            auto layer = open_image_layer(*source.layered, i);
            add_counts(unpack_layer(*layer, temporary.path(), UnpackStyle::plain), sum);
        }
    } else {
        add_counts(unpack_layer(*source.tree.open(), temporary.path(), UnpackStyle::plain), sum);
    }
    write_config(temporary.path(), source.layered ? source.layered->config : source.tree.config);
    sys::renameat(AT_FDCWD, temporary.path(), AT_FDCWD, target);  // over an empty directory, too
    temporary.release();
    ConvertReport report{fmt::format("wrote {} ({} entries)", destination.path, sum.entries), {}};
    if (sum.owners_not_kept > 0) {
        report.warnings.push_back(
            fmt::format("{} files belong to users that an ordinary user cannot give them; they are "
                        "yours now",
                        sum.owners_not_kept));
    }
    if (sum.devices_not_made > 0) {
        report.warnings.push_back(
            fmt::format("{} device nodes were left out: an ordinary user cannot make them",
                        sum.devices_not_made));
    }
    return report;
}

}  // namespace

OciImage open_layered(const ImageRef& ref, const Store& store) {
    switch (ref.kind) {
        case RefKind::oci_layout:
            return open_oci_layout(ref.path, ref.name);
        case RefKind::docker_archive:
            return open_docker_archive(ref.path, ref.name);
        case RefKind::stored:
            return store.get(ref.name);
        case RefKind::registry: {
            Store target = store;
            PullOptions options;
            options.stored_will_do = true;
            return pull_image(ref.name, target, options).image;
        }
        default:
            break;
    }
    throw Error(ErrorKind::unsupported, fmt::format("{} ({}) has no layers",
                                                    slipway::quoted(ref.text), to_string(ref.kind)))
        .hint("oci:DIR[:TAG], docker-archive:FILE[:REF] and stored images have");
}

SquashfsReport write_squashfs(const OciImage& image, const std::string& output, const Store& store,
                              SquashfsOptions options) {
    options.pack_directory = store.subdirectory("packs");
    options.pack_limit_bytes = pack_limit_from_environment();
    return write_squashfs(inputs_of(image), image.config, output, options);
}

ConvertReport convert(const std::string& source_text, const std::string& destination_text,
                      const Store& store, const SquashfsOptions& options) {
    Destination destination = parse_destination(destination_text);
    check_destination(destination);
    Source source = open_source(source_text, store);
    switch (destination.kind) {
        case Target::squashfs:
            return to_squashfs(source, destination, store, options);
        case Target::layout:
            return to_layout(source, destination, options);
        case Target::store:
            return to_store(source, destination, store, options);
        case Target::directory:
            break;
    }
    return to_directory(source, destination);
}

}  // namespace slipway::image
