// From a reference to what it leads to: an image of layers, or an artifact with one usable file.
// Must not: know how registries talk.
#include <fmt/format.h>

#include "../store/kept_file.hpp"
#include "model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/registry.hpp"

namespace slipway::image {
namespace {

using Check = std::function<void(const Content&)>;

/// Pulled, or as the store has it where the registry cannot be reached.
Content pull_content(const ImageRef& ref, const Store& store, SignaturesWanted signatures,
                     const Check& check) {
    Store target = store;
    PullOptions options;
    options.stored_will_do = true;
    options.signatures = signatures;
    options.platform = ref.platform;
    options.check = check;
    PullResult pulled = pull_image(ref.name, target, options);
    Content content;
    if (pulled.artifact)
        content.artifact = std::move(pulled.artifact);
    else
        content.image = std::move(pulled.image);
    return content;
}

void require_usable(const Content& content, const ImageRef& ref) {
    if (content.artifact && content.artifact->kind == ArtifactKind::other)
        throw no_image(*content.artifact, ref.text);
}

/// What a manifest says already; the file itself is looked at when it is there.
void require_pack(const Content& content, const ImageRef& ref) {
    if (!content.artifact)
        throw Error(ErrorKind::unsupported, fmt::format("{} is an image of layers, no data pack",
                                                        slipway::quoted(ref.text)))
            .hint(fmt::format("make one file of it: slipway convert {} FILE.sqfs; and show that",
                              ref.text));
    const ArtifactKind kind = content.artifact->kind;
    if (kind != ArtifactKind::dataset && kind != ArtifactKind::squashfs)
        throw no_image(*content.artifact, ref.text);
}

}  // namespace

Content open_content(const ImageRef& ref, const Store& store, SignaturesWanted signatures) {
    if (ref.kind == RefKind::registry)
        return pull_content(ref, store, signatures,
                            [&](const Content& content) { require_usable(content, ref); });
    if (ref.kind == RefKind::stored)
        if (auto content = find_content(store, ref.name)) {
            require_usable(*content, ref);
            if (content->image && !ref.platform.empty())
                require_platform(content->image->config, ref.platform, slipway::quoted(ref.text));
            return std::move(*content);
        }
    Content content;
    content.image = open_layered(ref, store);
    return content;
}

ImageRef file_of(const Artifact& artifact, const ImageRef& ref, const Store& store) {
    if (artifact.files.size() != 1) throw no_image(artifact, ref.text);
    const std::string layout = join_path(store.directory(), "oci");
    ImageRef file;
    try {
        file = parse_image_ref(blob_path(layout, artifact.files[0].digest));
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_image) throw;
        file.kind = RefKind::archive;
    }
    if (file.kind != RefKind::squashfs && file.kind != RefKind::sif)
        throw no_image(artifact, ref.text);
    file.text = ref.text;
    return file;
}

StoredPack find_pack(const std::string& reference, const std::string& store_directory) {
    const ImageRef ref = parse_image_ref(reference);
    if (ref.kind == RefKind::registry) need_full_program();
    const Store store = Store::open(store_directory);
    const auto check = [&](const Content& content) { require_pack(content, ref); };
    const Content content = ref.kind == RefKind::registry
                                ? pull_content(ref, store, SignaturesWanted::none, check)
                                : open_content(ref, store);
    check(content);
    const ImageRef file = file_of(*content.artifact, ref, store);
    if (file.kind != RefKind::squashfs) throw no_image(*content.artifact, reference);
    StoredPack pack{file.path, nullptr};
    if (auto held = hold_kept_file(file.path))
        pack.hold = std::make_shared<const UniqueFd>(std::move(*held));
    return pack;
}

}  // namespace slipway::image
