// Signs and verifies images of layers where they lie: layouts, archives, the store.
// Must not: know how signatures are kept (attached*.cpp do).
#include <fmt/format.h>

#include "../oci/archive_blobs.hpp"
#include "../oci/model.hpp"
#include "../store/use.hpp"
#include "attached.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/signing.hpp"

namespace slipway::image {
namespace {

std::string layout_subject(const std::string& directory, const std::string& tag) {
    return slipway::quoted(tag.empty() ? directory : directory + ":" + tag);
}

SignatureReport signed_report(const Attached& attached, const SigningKey& key) {
    SignatureReport report;
    report.digest = attached.subject.digest;
    report.content_bytes = attached.subject.size_bytes;
    report.signers = {"key " + key.id().text()};
    return report;
}

/// Check an image's signatures, and every blob that it names against its digest.
SignatureReport verify_layers(const OciImage& image, const TrustedKeys& trusted,
                              const std::string& subject, const std::string& how_to_sign) {
    SignatureReport report = judge_attached(attached_to(image), trusted, subject, how_to_sign);
    verify_blobs(image);
    for (const auto& layer : image.layers) report.content_bytes += layer.size_bytes;
    return report;
}

SignatureReport sign_stored(const std::string& name, const SigningKey& key, const Store& store) {
    const std::string full = normalize_stored_name(name);
    store.get(full);  // says what comes near
    store.begin_use();
    const std::string layout = join_path(store.directory(), "oci");
    const FileLock lock = lock_index(store);
    const auto entries = parse_index(read_layout_index(layout), "the store's index");
    for (const Descriptor& entry : entries) {
        if (entry.tag != full) continue;
        Attached attached = attached_to(*open_layout_blobs(layout), entries, entry);
        add_signature(attached, full, key);
        put_attached(layout, store.subdirectory("tmp"), attached);
        return signed_report(attached, key);
    }
    throw Error(ErrorKind::conflict,
                fmt::format("{} was removed meanwhile", slipway::quoted(full)));
}

Error cannot_sign(const ImageRef& ref) {
    return Error(ErrorKind::unsupported,
                 fmt::format("cannot sign {} ({})", slipway::quoted(ref.text), to_string(ref.kind)))
        .hint(ref.kind == RefKind::sif
                  ? "sign a SIF with: apptainer sign; or convert it: slipway convert FILE.sif "
                    "FILE.sqfs"
                  : fmt::format("make a file of it first: slipway convert {} FILE.sqfs", ref.text));
}

}  // namespace

SignatureReport sign_oci_layout(const std::string& directory, const std::string& tag,
                                const SigningKey& key) {
    open_oci_layout(directory, tag);  // says what is wrong with it
    const auto blobs = open_layout_blobs(directory);
    const auto entries = parse_index(read_layout_index(directory), layout_subject(directory, tag));
    const Descriptor entry = choose_image(entries, tag, "", slipway::quoted(directory));
    Attached attached = attached_to(*blobs, entries, entry);
    add_signature(attached, entry.tag, key);
    put_attached(directory, join_path(directory, "blobs/sha256"), attached);
    return signed_report(attached, key);
}

SignatureReport verify_oci_layout(const std::string& directory, const std::string& tag,
                                  const TrustedKeys& trusted) {
    const std::string name = tag.empty() ? directory : directory + ":" + tag;
    return verify_layers(open_oci_layout(directory, tag), trusted, slipway::quoted(name),
                         fmt::format("sign it: slipway sign oci:{} --key KEY.pem", name));
}

SignatureReport sign_image(const ImageRef& ref, const SigningKey& key, const Places& places) {
    if (ref.kind == RefKind::squashfs) return sign_squashfs(ref.path, key);
    if (ref.kind == RefKind::oci_layout) return sign_oci_layout(ref.path, ref.name, key);
    if (ref.kind == RefKind::registry) return sign_in_registry(ref.name, key, places.registry);
    if (ref.kind == RefKind::stored) return sign_stored(ref.name, key, Store::open(places.store));
    throw cannot_sign(ref);
}

SignatureReport verify_image(const ImageRef& ref, const TrustedKeys& trusted,
                             const Places& places) {
    if (ref.kind == RefKind::squashfs) return verify_signed_squashfs(ref.path, trusted);
    if (ref.kind == RefKind::oci_layout) return verify_oci_layout(ref.path, ref.name, trusted);
    if (ref.kind == RefKind::registry)
        return verify_in_registry(ref.name, trusted, places.registry);
    const std::string how_to_sign =
        ref.kind == RefKind::stored
            ? fmt::format(
                  "sign it: slipway sign {} --key KEY.pem; or pull it again, if it was "
                  "signed since",
                  ref.text)
            : "sign the image that it was made of, and convert that again";
    if (ref.kind == RefKind::stored || ref.kind == RefKind::oci_archive ||
        ref.kind == RefKind::archive) {
        const OciImage image = ref.kind == RefKind::stored ? Store::open(places.store).get(ref.name)
                               : ref.kind == RefKind::oci_archive
                                   ? open_oci_archive(ref.path, ref.name)
                                   : open_archive(ref.path, ref.name).image;
        if (!image.manifest_digest.empty())
            return verify_layers(image, trusted, slipway::quoted(ref.text), how_to_sign);
    }
    throw Error(ErrorKind::unsupported,
                fmt::format("{} ({}) carries no signature that can be verified",
                            slipway::quoted(ref.text), to_string(ref.kind)))
        .hint("signatures are in .sqfs files, in oci:DIR[:TAG], in the store and in registries");
}

}  // namespace slipway::image
