// Understands where a conversion goes.
// Must not: make or change anything.
#include "destination.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/reference.hpp"

namespace slipway::image {
namespace {

constexpr const char* kPossible =
    "a destination is FILE.sqfs, FILE.sif, FILE.tar, oci:DIR[:TAG], oci-archive:FILE[:TAG], "
    "docker-archive:FILE[:NAME], a directory, or store:NAME";

struct Suffix {
    const char* text;
    Target kind;
    LayerCompression compression;
};
constexpr Suffix kSuffixes[] = {
    {".sqfs", Target::squashfs, LayerCompression::none},
    {".squashfs", Target::squashfs, LayerCompression::none},
    {".sif", Target::sif, LayerCompression::none},
    {".tar", Target::tar, LayerCompression::none},
    {".tar.gz", Target::tar, LayerCompression::gzip},
    {".tgz", Target::tar, LayerCompression::gzip},
    {".tar.zst", Target::tar, LayerCompression::zstd},
    {".tzst", Target::tar, LayerCompression::zstd},
};

[[noreturn]] void without_path(std::string_view scheme) {
    throw Error(ErrorKind::usage, fmt::format("{} names no file or directory", scheme))
        .hint(kPossible);
}

Destination at_layout(const std::string& rest) {
    Destination destination{Target::layout, rest, "latest"};
    const size_t colon = rest.rfind(':');
    if (colon != std::string::npos && rest.find('/', colon) == std::string::npos) {
        destination.path = rest.substr(0, colon);
        if (colon + 1 < rest.size()) destination.name = rest.substr(colon + 1);
    }
    if (destination.path.empty()) without_path("oci:");
    return destination;
}

/// FILE[:NAME]; NAME may hold colons and slashes, so that FILE may not hold a colon.
Destination at_archive(Target kind, std::string_view scheme, const std::string& rest) {
    const size_t colon = rest.find(':');
    Destination destination{kind, rest.substr(0, colon), {}};
    if (destination.path.empty()) without_path(scheme);
    if (colon != std::string::npos) destination.name = rest.substr(colon + 1);
    if (kind == Target::docker_archive && !destination.name.empty())
        destination.name = normalize_stored_name(destination.name);
    if (kind == Target::oci_archive && destination.name.empty()) destination.name = "latest";
    return destination;
}

LayerCompression compression_of(const std::string& path) {
    for (const Suffix& suffix : kSuffixes)
        if (path.ends_with(suffix.text)) return suffix.compression;
    return LayerCompression::none;
}

Destination by_name(const std::string& text) {
    for (const Suffix& suffix : kSuffixes)
        if (text.ends_with(suffix.text)) return {suffix.kind, text, {}, suffix.compression};
    for (const char* suffix : {".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".ext3", ".ext4", ".img"}) {
        if (!text.ends_with(suffix)) continue;
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} files are not written", slipway::quoted(suffix)))
            .hint(kPossible);
    }
    return {Target::directory, text, {}};
}

[[noreturn]] void in_the_way(const std::string& path, const std::string& why) {
    throw Error(ErrorKind::already_exists, fmt::format("{} {}", slipway::quoted(path), why))
        .hint("remove it first, or choose another name");
}

void check_directory(const std::string& path, const struct stat& status) {
    if (!S_ISDIR(status.st_mode)) in_the_way(path, "is there and is no directory");
    if (sys::stat_if_exists(AT_FDCWD, join_path(path, "oci-layout"))) {
        throw Error(ErrorKind::already_exists,
                    fmt::format("{} is an OCI layout", slipway::quoted(path)))
            .hint(fmt::format("to put one more image into it, write to oci:{}:TAG", path));
    }
    const UniqueFd fd = sys::open(path, O_RDONLY | O_DIRECTORY);
    if (!sys::list_directory(fd.get(), path).empty()) in_the_way(path, "is not empty");
}

}  // namespace

Destination parse_destination(const std::string& text) {
    const auto after = [&](std::string_view scheme) { return text.substr(scheme.size()); };
    if (text.empty()) {
        throw Error(ErrorKind::usage, "the destination is empty").hint(kPossible);
    }
    if (text.starts_with("store:"))
        return {Target::store, {}, normalize_stored_name(after("store:"))};
    if (text.starts_with("oci:")) return at_layout(after("oci:"));
    if (text.starts_with("oci-archive:"))
        return at_archive(Target::oci_archive, "oci-archive:", after("oci-archive:"));
    if (text.starts_with("docker-archive:"))
        return at_archive(Target::docker_archive, "docker-archive:", after("docker-archive:"));
    if (text.starts_with("docker://")) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("convert does not write {}", slipway::quoted(text)))
            .hint(fmt::format("push the image: slipway push SOURCE {}", text));
    }
    for (const auto& [scheme, kind] :
         {std::pair{"tar:", Target::tar}, std::pair{"dir:", Target::directory}}) {
        if (!text.starts_with(scheme)) continue;
        const std::string path = after(scheme);
        if (path.empty()) without_path(scheme);
        return {kind, path, {}, compression_of(path)};
    }
    return by_name(text);
}

void check_destination(const Destination& destination) {
    if (destination.kind == Target::store) return;
    const std::string& path = destination.path;
    const auto status = sys::stat_if_exists(AT_FDCWD, path);
    if (!status) {
        if (destination.kind == Target::layout) return;
        const std::string parent(parent_path(absolute_path(path)));
        if (sys::stat_if_exists(AT_FDCWD, parent)) return;
        throw Error(ErrorKind::not_found,
                    fmt::format("there is no directory {} to write into", slipway::quoted(parent)))
            .hint("make it first: mkdir -p " + parent);
    }
    if (destination.kind == Target::directory) return check_directory(path, *status);
    if (destination.kind == Target::layout) {
        if (!S_ISDIR(status->st_mode)) in_the_way(path, "is there and is no directory");
        if (sys::stat_if_exists(AT_FDCWD, join_path(path, "oci-layout"))) return;
        const UniqueFd fd = sys::open(path, O_RDONLY | O_DIRECTORY);
        if (!sys::list_directory(fd.get(), path).empty())
            in_the_way(path, "is not empty and is no OCI layout");
        return;
    }
    in_the_way(path, "is there already");
}

}  // namespace slipway::image
