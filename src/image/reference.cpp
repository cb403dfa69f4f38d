// Understands what a user typed as an image: scheme, path or stored name.
// Must not: open an image further than its first bytes.
#include "slipway/image/reference.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "registry/reference.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

std::optional<struct stat> status_of(const std::string& path) {
    return sys::stat_if_exists(AT_FDCWD, path);
}
bool is_directory(const std::string& path) {
    auto status = status_of(path);
    return status && S_ISDIR(status->st_mode);
}

[[noreturn]] void absent(std::string_view what, const std::string& path) {
    throw Error(ErrorKind::not_found, fmt::format("there is no {} {}", what, quoted(path)))
        .hint("check the spelling; \"slipway images\" lists the images that have names");
}

/// A FIFO without a writer would hold us for ever, and no pipe can be read at offsets.
void require_regular(const struct stat& status, const std::string& path) {
    if (S_ISREG(status.st_mode)) return;
    throw Error(ErrorKind::invalid_image,
                fmt::format("{} is neither a file nor a directory", slipway::quoted(path)))
        .hint("write what it gives to a file first, and name that file");
}

/// Tell a file's format from its first bytes, then from its name.
RefKind kind_of_file(const std::string& path) {
    UniqueFd fd = sys::open(path, O_RDONLY | O_NONBLOCK);
    require_regular(sys::fstat(fd.get(), path), path);
    char head[512] = {};
    size_t got = sys::pread(fd.get(), head, sizeof head, 0, path);
    std::string_view bytes(head, got);
    if (bytes.starts_with("hsqs")) return RefKind::squashfs;
    if (bytes.size() > 42 && bytes.substr(32, 9) == "SIF_MAGIC") return RefKind::sif;
    if (bytes.size() == 512 && bytes.substr(257, 5) == "ustar") return RefKind::archive;
    if (path.ends_with(".sqfs") || path.ends_with(".squashfs")) return RefKind::squashfs;
    if (path.ends_with(".sif")) return RefKind::sif;
    for (const char* suffix : {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"}) {
        if (path.ends_with(suffix)) return RefKind::archive;
    }
    for (const char* suffix : {".tar.xz", ".txz", ".tar.bz2", ".tbz2"}) {
        if (!path.ends_with(suffix)) continue;
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is compressed in a way that image archives are not",
                                slipway::quoted(path)))
            .hint("decompress it first, with xz -d or bzip2 -d; plain, gzip and zstd are read");
    }
    throw Error(ErrorKind::invalid_image, fmt::format("{} is no image", quoted(path)))
        .note("it is neither a squashfs file, nor a SIF, nor a tar file")
        .hint(
            "name a .sqfs file, a directory, oci:DIR[:TAG], docker-archive:FILE, or an image "
            "that \"slipway images\" lists");
}

ImageRef path_ref(std::string_view text) {
    ImageRef ref;
    ref.text = text;
    ref.path = text;
    auto status = status_of(ref.path);
    if (!status) absent("file or directory", ref.path);
    if (S_ISDIR(status->st_mode)) {
        bool layout = status_of(join_path(ref.path, "oci-layout")) &&
                      status_of(join_path(ref.path, "index.json"));
        ref.kind = layout ? RefKind::oci_layout : RefKind::directory;
        if (lexically_normal(absolute_path(ref.path)) == "/") ref.kind = RefKind::host;
    } else {
        ref.kind = kind_of_file(ref.path);
    }
    return ref;
}

/// oci:DIR[:TAG]; a tag holds no "/", and a directory may hold a ":".
ImageRef layout_ref(std::string_view text, std::string_view rest) {
    ImageRef ref;
    ref.kind = RefKind::oci_layout;
    ref.text = text;
    ref.path = rest;
    if (!is_directory(ref.path)) {
        size_t colon = rest.find(':');
        while (colon != std::string_view::npos &&
               !is_directory(std::string(rest.substr(0, colon)))) {
            colon = rest.find(':', colon + 1);
        }
        if (colon == std::string_view::npos) {
            absent("directory", std::string(rest.substr(0, rest.rfind(':'))));
        }
        ref.path = rest.substr(0, colon);
        ref.name = rest.substr(colon + 1);
    }
    return ref;
}

/// SCHEME:FILE[:REF]; REF holds colons itself.
ImageRef archive_ref(RefKind kind, std::string_view text, std::string_view rest) {
    ImageRef ref;
    ref.kind = kind;
    ref.text = text;
    for (size_t end = rest.size();; end = rest.rfind(':', end - 1)) {
        if (end == std::string_view::npos || end == 0) {
            absent("file", std::string(rest.substr(0, rest.find(':'))));
        }
        std::string path(rest.substr(0, end));
        if (auto status = status_of(path); status && !S_ISDIR(status->st_mode)) {
            require_regular(*status, path);
            ref.path = path;
            if (end < rest.size()) ref.name = rest.substr(end + 1);
            return ref;
        }
    }
}

constexpr std::pair<std::string_view, RefKind> kArchiveSchemes[] = {
    {"docker-archive:", RefKind::docker_archive},
    {"oci-archive:", RefKind::oci_archive},
    {"tar:", RefKind::tar},
};

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// One component of a name: lower case and digits, joined by ".", "-" or "_".
bool is_component(std::string_view text) {
    return !text.empty() && is_lower_or_digit(text.front()) && is_lower_or_digit(text.back()) &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return is_lower_or_digit(c) || c == '.' || c == '-' || c == '_';
           });
}

bool is_host_with_port(std::string_view text) {
    size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    std::string_view port = text.substr(colon + 1);
    return is_component(text.substr(0, colon)) && !port.empty() &&
           std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_tag(std::string_view text) {
    return !text.empty() && text.size() <= 128 && text.front() != '.' && text.front() != '-' &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
                      c == '_';
           });
}

[[noreturn]] void malformed_name(std::string_view text) {
    throw Error(ErrorKind::usage, fmt::format("{} is no valid image name", quoted(text)))
        .hint("write NAME or NAME:TAG in lower case, for example digits or lab/digits:v2");
}

}  // namespace

std::string normalize_stored_name(std::string_view name) {
    size_t slash = name.rfind('/');
    size_t colon = name.rfind(':');
    bool tagged =
        colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash);
    std::string_view repository = tagged ? name.substr(0, colon) : name;
    std::string_view tag = tagged ? name.substr(colon + 1) : "latest";
    if (!is_tag(tag) || repository.empty() || repository.size() > 255) malformed_name(name);
    std::string_view rest = repository;
    for (bool first = true; !rest.empty() || first; first = false) {
        size_t end = rest.find('/');
        std::string_view component = rest.substr(0, end);
        bool last = end == std::string_view::npos;
        if (!is_component(component) && !(first && !last && is_host_with_port(component))) {
            malformed_name(name);
        }
        if (last) break;
        rest = rest.substr(end + 1);
        if (rest.empty()) malformed_name(name);
    }
    return fmt::format("{}:{}", repository, tag);
}

ImageRef parse_image_ref(std::string_view text) {
    if (text.empty()) {
        throw Error(ErrorKind::usage, "an image's name is empty")
            .hint("name a .sqfs file, a directory, or an image that \"slipway images\" lists");
    }
    if (text.find('\0') != std::string_view::npos) malformed_name(text);
    auto after = [&](std::string_view scheme) { return text.substr(scheme.size()); };
    if (text.starts_with("oci:")) return layout_ref(text, after("oci:"));
    for (const auto& [scheme, kind] : kArchiveSchemes)
        if (text.starts_with(scheme)) return archive_ref(kind, text, after(scheme));
    ImageRef ref;
    ref.text = text;
    if (text.starts_with("docker://")) {
        ref.kind = RefKind::registry;
        ref.name = after("docker://");
        parse_registry_reference(ref.name);
        return ref;
    }
    if (text.starts_with("store:")) {
        ref.name = normalize_stored_name(after("store:"));
        return ref;
    }
    bool path = text.front() == '/' || text.starts_with("./") || text.starts_with("../") ||
                text == "." || text == "..";
    if (path || status_of(std::string(text))) return path_ref(text);
    for (const char* suffix : {".sqfs", ".squashfs", ".sif"}) {
        if (text.ends_with(suffix)) absent("file", std::string(text));
    }
    if (text.find("://") != std::string_view::npos) {
        throw Error(ErrorKind::usage, fmt::format("the scheme of {} is not known", quoted(text)))
            .hint(
                "oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:REF], tar:FILE and "
                "docker://REF are");
    }
    ref.name = normalize_stored_name(text);
    return ref;
}

std::string_view to_string(RefKind kind) {
    switch (kind) {
        case RefKind::host:
            return "host";
        case RefKind::directory:
            return "directory";
        case RefKind::squashfs:
            return "squashfs";
        case RefKind::sif:
            return "SIF";
        case RefKind::oci_layout:
            return "OCI layout";
        case RefKind::oci_archive:
            return "OCI archive";
        case RefKind::docker_archive:
            return "docker archive";
        case RefKind::archive:
            return "archive";
        case RefKind::tar:
            return "tar";
        case RefKind::registry:
            return "registry";
        case RefKind::stored:
            return "stored image";
    }
    return "image";
}

}  // namespace slipway::image
