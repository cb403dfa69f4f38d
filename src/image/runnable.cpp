// Finds or makes the form of an image that the runtime mounts.
// Must not: mount anything.
#include <fmt/core.h>

#include "artifact/model.hpp"
#include "layer/tree_source.hpp"
#include "oci/archive_blobs.hpp"
#include "oci/model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/convert.hpp"
#include "store/kept_file.hpp"
#include "store/use.hpp"
#include "temp_file.hpp"
#include "trust/attached.hpp"
#include "trust/sealed_image.hpp"

namespace slipway::image {
namespace {

// A large image on two processors takes a minute; somebody else may be making it.
constexpr auto kConvertTimeout = std::chrono::minutes(30);

/// A directory is mounted as it is: what changes in it shows in every container at once, and makes
/// no other image of it. A file's server reads what it has opened.
std::string identity_at(const std::string& path) {
    auto status = sys::stat_if_exists(AT_FDCWD, path);
    if (!status) {
        throw Error(ErrorKind::not_found, fmt::format("there is no {}", slipway::quoted(path)));
    }
    return identity_of(*status);
}

/// What an image of layers is kept under: its config's digest, which fixes the layers' contents,
/// too. A plain tar brings no config of its own; the one it gets fixes them as well.
std::string squashfs_key(const OciImage& image) {
    if (!image.config_digest.empty()) return image.config_digest.hex();
    return sha256(to_text(config_to_json(image.config))).hex();
}

/// A file of the store that nobody deletes while `fd` is open.
struct KeptSquashfs {
    std::string path;
    UniqueFd fd;
};

/// The squashfs file made from an image of layers, kept in the store; `sealed`: one whose blocks
/// are checked when they are read.
KeptSquashfs make_squashfs(const OciImage& image, const ImageRef& ref, const Store& store,
                           bool sealed) {
    const std::string key = squashfs_key(image);
    const std::string plain = join_path(store.directory(), fmt::format("squashfs/{}.sqfs", key));
    const auto hold = [&]() -> std::optional<KeptSquashfs> {
        const std::string path = sealed ? find_sealed_squashfs(key, store) : plain;
        auto held = path.empty() ? std::nullopt : hold_kept_file(path);
        if (!held) return std::nullopt;
        return KeptSquashfs{path, std::move(*held)};
    };
    if (auto held = hold()) return std::move(*held);
    need_full_program();
    store.begin_use();  // nobody deletes what we make, until we hold it
    FileLock lock(join_path(store.subdirectory("locks"), "squashfs-" + key),
                  FileLock::Mode::exclusive, kConvertTimeout);
    if (auto held = hold()) return std::move(*held);
    store.subdirectory("squashfs");
    log::info("making a squashfs of {}, once", ref.text);
    try {
        const std::vector<std::string> warnings =
            sealed ? make_sealed_squashfs(image, key, store)
                   : write_squashfs(image, plain, store).warnings;
        for (const std::string& warning : warnings) log::warning("{}", warning);
    } catch (Error& error) {
        add_room_left(error, store.directory());
        throw;
    }
    auto held = hold();
    if (!held)
        throw Error(ErrorKind::conflict,
                    fmt::format("somebody deleted the squashfs of {}, which was just made",
                                slipway::quoted(ref.text)))
            .hint("try again");
    return std::move(*held);
}

/// A store that somebody else filled may be read-only: then the squashfs goes into the user's own.
KeptSquashfs squashfs_of(const OciImage& image, const ImageRef& ref, const Store& store,
                         bool sealed) {
    try {
        return make_squashfs(image, ref, store, sealed);
    } catch (const Error& error) {
        const bool read_only = is_read_only(error) || error.kind() == ErrorKind::permission;
        if (!read_only || store.directory() == Store::personal_directory()) throw;
        log::info("{} is read-only here: what is made of {} is kept in {}", store.directory(),
                  ref.text, Store::personal_directory());
        log::verbose("{}", error.message());
    }
    return make_squashfs(image, ref, Store::open(Store::personal_directory()), sealed);
}

std::string architecture_of(const std::string& platform) {
    const std::string rest = platform.substr(platform.find('/') + 1);
    return rest.substr(0, rest.find('/'));
}

/// Refuse what this machine cannot execute, unless the kernel was told how to (binfmt_misc).
void require_architecture(const std::string& told, const ImageRef& ref) {
    const std::string ours = architecture_of(host_platform());
    const std::string architecture = architecture_of(platform_name("linux", told, ""));
    if (architecture.empty() || architecture == ours ||
        (architecture == "386" && ours == "amd64") || (architecture == "arm" && ours == "arm64"))
        return;
    const std::string machine = architecture == "arm64"   ? "aarch64"
                                : architecture == "amd64" ? "x86_64"
                                                          : architecture;
    if (sys::stat_if_exists(AT_FDCWD, "/proc/sys/fs/binfmt_misc/qemu-" + machine)) return;
    throw Error(ErrorKind::unsupported, fmt::format("{} is an image for {}, and this machine is {}",
                                                    slipway::quoted(ref.text), architecture, ours))
        .hint(fmt::format("build or pull the image for {0}: slipway pull --platform linux/{0}",
                          ours));
}

/// Told of an image of layers that nobody signed.
std::string how_to_sign(const ImageRef& ref) {
    if (ref.kind == RefKind::registry || ref.kind == RefKind::stored ||
        ref.kind == RefKind::oci_layout)
        return fmt::format(
            "sign it: slipway sign {} --key KEY.pem{}", ref.text,
            ref.kind == RefKind::stored ? "; or pull it again, if it was signed since" : "");
    return "sign the image that it was made of, and convert that again";
}

Error not_verifiable(const ImageRef& ref) {
    return Error(ErrorKind::unsupported,
                 fmt::format("cannot verify {} ({}) while it runs: only a signed squashfs file, or "
                             "an image of layers that is signed, can be",
                             slipway::quoted(ref.text), to_string(ref.kind)))
        .hint(fmt::format("make a file of it and sign that: slipway convert {} FILE.sqfs; "
                          "slipway sign FILE.sqfs --key KEY.pem",
                          ref.text));
}

RunnableImage runnable_file(const ImageRef& ref, const TrustedKeys* trusted) {
    SquashfsFile file = open_squashfs_file(ref, trusted, ConfigScope::to_run);
    require_architecture(
        file.config && file.architecture.empty() ? file.config->architecture : file.architecture,
        ref);
    for (const std::string& warning : file.warnings) log::warning("{}", warning);
    RunnableImage runnable;
    runnable.format = ref.kind;
    runnable.kind = RunnableImage::Kind::squashfs;
    runnable.path = absolute_path(ref.path);
    runnable.offset_bytes = file.offset_bytes;
    runnable.seal = file.seal;
    runnable.squashfs = std::move(file.image);
    runnable.config = std::move(file.config).value_or(ImageConfig());
    return runnable;
}

/// The file is mounted where it lies in the store.
RunnableImage runnable_artifact(const Artifact& artifact, const ImageRef& ref, const Store& store,
                                const TrustedKeys* trusted) {
    if (artifact.kind == ArtifactKind::dataset) throw no_image(artifact, ref.text);
    const ImageRef file = file_of(artifact, ref, store);
    if (trusted != nullptr && file.kind != RefKind::squashfs) throw not_verifiable(ref);
    RunnableImage runnable = runnable_file(file, trusted);
    if (auto held = hold_kept_file(file.path))
        runnable.hold = std::make_shared<const UniqueFd>(std::move(*held));
    return runnable;
}

/// With `trusted` keys one of them must have signed the image's manifest.
RunnableImage runnable_layers(const OciImage& image, RefKind format, const ImageRef& ref,
                              const Store& store, const TrustedKeys* trusted) {
    const bool verified = trusted != nullptr;
    if (verified) {
        if (image.manifest_digest.empty()) throw not_verifiable(ref);
        judge_attached(attached_to(image), *trusted, slipway::quoted(ref.text), how_to_sign(ref));
    }
    require_architecture(image.config.architecture, ref);
    RunnableImage runnable;
    runnable.format = format;
    runnable.kind = RunnableImage::Kind::squashfs;
    KeptSquashfs kept = squashfs_of(image, ref, store, verified);
    runnable.path = std::move(kept.path);
    runnable.hold = std::make_shared<const UniqueFd>(std::move(kept.fd));
    if (verified) runnable.seal = seal_in_name(runnable.path);
    runnable.config = image.config;
    return runnable;
}

/// Anything that has to be read through a store.
RunnableImage runnable_through(const Store& store, const ImageRef& ref,
                               const TrustedKeys* trusted) {
    if (ref.kind == RefKind::archive) {
        const ArchiveImage opened = open_archive(ref.path, ref.name);
        return runnable_layers(opened.image, opened.kind, ref, store, trusted);
    }
    const Content content = open_content(
        ref, store, trusted != nullptr ? SignaturesWanted::required : SignaturesWanted::tag);
    return content.artifact ? runnable_artifact(*content.artifact, ref, store, trusted)
                            : runnable_layers(*content.image, ref.kind, ref, store, trusted);
}

}  // namespace

std::string identity_of(const struct stat& status) {
    if (S_ISDIR(status.st_mode)) return fmt::format("{}:{}", status.st_dev, status.st_ino);
    return fmt::format("{}:{}:{}:{}.{:09}", status.st_dev, status.st_ino, status.st_size,
                       status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

RunnableImage make_runnable(const ImageRef& ref, const std::string& store_directory,
                            const TrustedKeys* trusted) {
    RunnableImage runnable;
    runnable.format = ref.kind;
    if (trusted != nullptr && (ref.kind == RefKind::host || ref.kind == RefKind::directory ||
                               ref.kind == RefKind::sif || ref.kind == RefKind::tar))
        throw not_verifiable(ref);
    switch (ref.kind) {
        case RefKind::host:
            runnable.kind = RunnableImage::Kind::host;
            runnable.path = std::string(1, '/');  // GCC 12 warns falsely about = "/"
            break;
        case RefKind::directory:
            runnable.kind = RunnableImage::Kind::directory;
            runnable.path = absolute_path(ref.path);
            if (auto config = read_directory_config(runnable.path, ConfigScope::to_run)) {
                require_architecture(config->architecture, ref);
                runnable.config = std::move(*config);
            }
            break;
        case RefKind::squashfs:
        case RefKind::sif:
            runnable = runnable_file(ref, trusted);
            break;
        default:
            if (ref.kind != RefKind::stored && ref.kind != RefKind::oci_layout) need_full_program();
            runnable = runnable_through(Store::open(store_directory), ref, trusted);
    }
    runnable.identity = runnable.squashfs
                            ? identity_of(sys::fstat(runnable.squashfs->fd(), runnable.path))
                            : identity_at(runnable.path);
    return runnable;
}

}  // namespace slipway::image
