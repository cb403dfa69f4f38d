// Converts between image formats: any source as layers or as one tree, then into the destination.
// Must not: write anything at the destination's name before it is whole.
#include "slipway/image/convert.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "added_files.hpp"
#include "artifact/model.hpp"
#include "destination.hpp"
#include "layer/tree_source.hpp"
#include "oci/archive_blobs.hpp"
#include "oci/archive_writer.hpp"
#include "oci/model.hpp"
#include "sif/sif.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/registry.hpp"
#include "store/layers.hpp"
#include "temp_file.hpp"
#include "trust/attached.hpp"

namespace slipway::image {
namespace {

/// What is converted: an image of layers, or a tree with its config.
struct Source {
    std::optional<OciImage> layered;
    TreeImage tree;
    std::optional<Artifact> artifact;  ///< of which the tree is the only file
    RefKind file = RefKind::squashfs;  ///< what that file is
    std::vector<Attached> attached;    ///< signatures of the image of layers
};

/// Formats that keep a manifest, and so what was signed.
bool keeps_signatures(Target kind) {
    return kind == Target::layout || kind == Target::oci_archive || kind == Target::store;
}

Source open_source(const std::string& text, Target target, const Store& store,
                   const std::string& platform) {
    ImageRef ref = parse_image_ref(text);
    ref.platform = platform;
    Source source;
    if (ref.kind == RefKind::directory || ref.kind == RefKind::squashfs ||
        ref.kind == RefKind::sif) {
        source.tree = open_tree_image(ref);
        if (!platform.empty())
            require_platform(source.tree.config, platform, slipway::quoted(text));
        return source;
    }
    Content content = open_content(
        ref, store, keeps_signatures(target) ? SignaturesWanted::all : SignaturesWanted::tag);
    source.layered = std::move(content.image);
    if (source.layered) source.attached = attached_to(*source.layered);
    if (content.artifact) {
        const ImageRef file = file_of(*content.artifact, ref, store);
        source.file = file.kind;
        source.tree = open_tree_image(file);
        source.artifact = std::move(content.artifact);
    }
    return source;
}

std::string describe(const std::string& what, uint64_t size_bytes) {
    return fmt::format("wrote {} ({})", what, human_bytes(size_bytes));
}

/// What a conversion to squashfs took at its peak, besides the file.
std::string cost_of(const SquashfsReport& report) {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    const std::string cost = fmt::format(
        "; {} files of {}; at most {} of memory and {} of disk beside the file", report.inodes,
        human_bytes(report.input_bytes), human_bytes(static_cast<uint64_t>(usage.ru_maxrss) * 1024),
        human_bytes(report.packed_bytes));
    if (report.saved_bytes == 0) return cost;
    return cost + fmt::format(
                      "; {} saved by repacking {} blocks of small files, most of which "
                      "later layers delete or replace",
                      human_bytes(report.saved_bytes), report.repacked_blocks);
}

ConvertReport to_squashfs(const Source& source, const Destination& destination, const Store& store,
                          const SquashfsOptions& options) {
    SquashfsReport report = source.layered
                                ? write_squashfs(*source.layered, destination.path, store, options)
                                : write_squashfs(std::vector<LayerOpener>{source.tree.open},
                                                 source.tree.config, destination.path, options);
    return {describe(destination.path, report.output_bytes) + cost_of(report), report.warnings};
}

/// The layers of what is converted; a tree becomes one.
OciImage layered(Source& source, const SquashfsOptions& options) {
    if (source.layered) return *source.layered;
    return as_one_layer(source.tree, options.source_date_epoch);
}

uint64_t layer_bytes(const OciImage& image) {
    uint64_t sum = 0;
    for (const Layer& layer : image.layers) sum += layer.size_bytes;
    return sum;
}

ConvertReport to_store(const OciImage& image, const std::vector<Attached>& attached,
                       const Destination& destination, const Store& store) {
    Store target = store;
    target.import(destination.name, image);
    put_attached(store, attached);
    return {fmt::format("stored {} ({})", destination.name, human_bytes(layer_bytes(image))), {}};
}

void write_layout(const OciImage& image, const std::vector<Attached>& attached,
                  const std::string& directory, const std::string& tag) {
    write_oci_layout(image, directory, tag);
    for (const Attached& one : attached)
        put_attached(directory, join_path(directory, "blobs/sha256"), one);
}

ConvertReport to_layout(const OciImage& image, const std::vector<Attached>& attached,
                        const Destination& destination, const Store& store) {
    const std::string written = fmt::format("oci:{}:{}", destination.path, destination.name);
    if (sys::stat_if_exists(AT_FDCWD, join_path(destination.path, "oci-layout"))) {
        write_layout(image, attached, destination.path, destination.name);
        return {describe(written, layer_bytes(image)), {}};
    }
    const std::string parent(parent_path(absolute_path(destination.path)));
    sys::make_directories(parent);
    StagedTree staged(destination.path, store.subdirectory("tmp"));
    sys::fchmodat(AT_FDCWD, staged.path(), user_mode(0777));
    write_layout(image, attached, staged.path(), destination.name);
    staged.commit();
    return {describe(written, layer_bytes(image)), {}};
}

ConvertReport to_archive(const OciImage& image, const std::vector<Attached>& attached,
                         const Destination& destination) {
    const bool docker = destination.kind == Target::docker_archive;
    const uint64_t size_bytes =
        docker ? write_docker_archive(image, destination.path, destination.name)
               : write_oci_archive(image, destination.path, destination.name, attached);
    return {describe(destination.path, size_bytes), {}};
}

/// A squashfs of the source that is there until this object goes: the way of layers to one tree.
class Merged {
 public:
    Merged(const Source& source, const Destination& destination, const Store& store,
           const SquashfsOptions& options)
        : staged_(destination.path, store.subdirectory("tmp")),
          path_(join_path(staged_.path(), "squashfs")),
          report(to_squashfs(source, {Target::squashfs, path_, {}}, store, options)),
          file(sys::open(path_, O_RDONLY)) {}

 private:
    StagedTree staged_;
    std::string path_;

 public:
    ConvertReport report;
    UniqueFd file;
};

const ImageConfig& config_of(const Source& source) {
    return source.layered ? source.layered->config : source.tree.config;
}

ConvertReport to_sif(const Source& source, const Destination& destination, const Store& store,
                     const SquashfsOptions& options) {
    Merged merged(source, destination, store, options);
    const SquashfsImage image(std::move(merged.file), destination.path);
    const uint64_t size_bytes =
        write_sif(image.fd(), config_of(source), image.info().modified, destination.path);
    return {describe(destination.path, size_bytes), merged.report.warnings};
}

/// A plain tar holds the tree as a squashfs would, the added files included.
ConvertReport to_tar(const Source& source, const Destination& destination, const Store& store,
                     const SquashfsOptions& options) {
    Merged merged(source, destination, store, options);
    NewFile file(destination.path);
    LayerWriter writer(file.fd(), destination.compression, options.source_date_epoch);
    writer.add_all(*open_squashfs(std::move(merged.file), destination.path));
    const Layer layer = writer.finish();
    sys::fsync(file.fd(), destination.path);
    file.commit(user_mode(0666));
    return {describe(destination.path, layer.size_bytes), merged.report.warnings};
}

void add_counts(const UnpackReport& report, UnpackReport& sum) {
    sum.entries += report.entries;
    sum.owners_not_kept += report.owners_not_kept;
    sum.devices_not_made += report.devices_not_made;
}

/// Write what Slipway adds to an image, through a root directory that may hold hostile links.
void write_added_files(const std::string& directory, const Source& source) {
    const Root root(directory);
    const auto added = plan_added_files(
        config_of(source), source.layered ? source.layered->manifest_digest.text() : "",
        [&root](const std::string& path) {
            const auto status = root.stat(path, false);
            if (!status) return There::nothing;
            return S_ISDIR(status->st_mode) ? There::directory : There::other;
        });
    for (const AddedFile& file : added) {
        const std::string name(base_name(file.entry.path));
        const UniqueFd parent = root.open_parent(file.entry.path, true);
        if (file.entry.type == EntryType::directory) {
            const auto status = sys::stat_if_exists(parent.get(), name, AT_SYMLINK_NOFOLLOW);
            if (status && S_ISDIR(status->st_mode)) continue;
        }
        // Whatever an image has at that name is replaced, never written through.
        remove_tree(parent.get(), name);
        if (file.entry.type == EntryType::directory) {
            sys::mkdirat(parent.get(), name, file.entry.mode);
        } else if (file.entry.type == EntryType::symlink) {
            sys::symlinkat(file.entry.link_target, parent.get(), name);
        } else {
            const UniqueFd fd =
                sys::openat(parent.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
            sys::fchmod(fd.get(), file.entry.mode, file.entry.path);
            sys::write_all(fd.get(), file.content.data(), file.content.size(), file.entry.path);
        }
    }
}

ConvertReport to_directory(const Source& source, const Destination& destination,
                           const Store& store) {
    StagedTree staged(destination.path, store.subdirectory("tmp"));
    sys::fchmodat(AT_FDCWD, staged.path(), 0755);
    UnpackReport sum;
    if (source.layered) {
        for (size_t i = 0; i < source.layered->layers.size(); ++i) {
            auto layer = open_image_layer(*source.layered, i);
            add_counts(unpack_layer(*layer, staged.path(), UnpackStyle::plain), sum);
        }
    } else {
        add_counts(unpack_layer(*source.tree.open(), staged.path(), UnpackStyle::plain), sum);
    }
    write_added_files(staged.path(), source);
    staged.commit();  // over an empty directory, too
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

/// What the destination cannot hold of the source; "" when nothing is lost.
std::string losses(const Source& source, const Destination& destination) {
    if (!source.layered) return {};
    const OciImage& image = *source.layered;
    const bool one_tree = destination.kind == Target::squashfs || destination.kind == Target::sif ||
                          destination.kind == Target::tar || destination.kind == Target::directory;
    if (one_tree && image.layers.size() > 1) {
        return fmt::format(
            "not kept: the {} layers, which become one tree; their digests and the history are "
            "noted in {}",
            image.layers.size(), kConfigPathInImage);
    }
    if (destination.kind != Target::docker_archive || image.manifest_digest.empty()) return {};
    return "not kept: the manifest, its digest and its annotations; the image id and the layers' "
           "diff ids stay";
}

bool is_file_of(const Source& source, Target kind) {
    return source.artifact &&
           kind == (source.file == RefKind::sif ? Target::sif : Target::squashfs);
}

ConvertReport copy(const Artifact& artifact, const Destination& destination) {
    save_artifact(artifact, destination.path);
    return {describe(destination.path, artifact.files[0].size_bytes) + ", the artifact as it is",
            {}};
}

ConvertReport write(Source& source, const Destination& destination, const Store& store,
                    const SquashfsOptions& options) {
    switch (destination.kind) {
        case Target::squashfs:
            return to_squashfs(source, destination, store, options);
        case Target::sif:
            return to_sif(source, destination, store, options);
        case Target::tar:
            return to_tar(source, destination, store, options);
        case Target::layout:
            return to_layout(layered(source, options), source.attached, destination, store);
        case Target::oci_archive:
        case Target::docker_archive:
            return to_archive(layered(source, options), source.attached, destination);
        case Target::store:
            return to_store(layered(source, options), source.attached, destination, store);
        case Target::directory:
            break;
    }
    return to_directory(source, destination, store);
}

OciImage of_platform(OciImage image, const ImageRef& ref) {
    if (!ref.platform.empty())
        require_platform(image.config, ref.platform, slipway::quoted(ref.text));
    return image;
}

}  // namespace

OciImage open_layered(const ImageRef& ref, const Store& store, SignaturesWanted signatures) {
    switch (ref.kind) {
        case RefKind::oci_layout:
            return open_oci_layout(ref.path, ref.name, ref.platform);
        case RefKind::docker_archive:
            return of_platform(open_docker_archive(ref.path, ref.name), ref);
        case RefKind::oci_archive:
            return open_oci_archive(ref.path, ref.name, ref.platform);
        case RefKind::archive:
            return of_platform(open_archive(ref.path, ref.name, ref.platform).image, ref);
        case RefKind::tar:
            return open_plain_tar(ref.path);
        case RefKind::stored:
            return of_platform(store.get(ref.name), ref);
        case RefKind::registry: {
            Store target = store;
            PullOptions options;
            options.stored_will_do = true;
            options.platform = ref.platform;
            options.check = [&](const Content& content) {
                if (content.artifact) throw no_image(*content.artifact, ref.text);
            };
            options.signatures = signatures;
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
    return write_squashfs(inputs_of(image), image.config, output,
                          with_packs_of(store, image, std::move(options)));
}

ConvertReport convert(const std::string& source_text, const std::string& destination_text,
                      const Store& store, const SquashfsOptions& options,
                      const std::string& platform, bool as_it_is) {
    Destination destination = parse_destination(destination_text);
    check_destination(destination);
    try {
        Source source = open_source(source_text, destination.kind, store, platform);
        if (as_it_is && is_file_of(source, destination.kind))
            return copy(*source.artifact, destination);
        if (const std::string lost = losses(source, destination); !lost.empty())
            log::info("{}", lost);
        if (!source.attached.empty() && !keeps_signatures(destination.kind))
            log::info(
                "not kept: the signatures, which are of the manifest {}; verify before (slipway "
                "verify {}), and sign the file",
                source.attached.front().subject.digest.text(), source_text);
        return write(source, destination, store, options);
    } catch (Error& error) {
        add_room_left(error,
                      destination.kind == Target::store ? store.directory() : destination.path);
        throw;
    }
}

}  // namespace slipway::image
