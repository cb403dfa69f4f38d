// Knows the names of the files with which dynamically linked programs start.
// Must not: look into files, or depend on which program an image is for.
#include "every_start.hpp"

#include <algorithm>

namespace slipway::image::squashfs {
namespace {

constexpr std::string_view kFiles[] = {".slipway/image.json", "etc/ld.so.cache", "etc/passwd",
                                       "etc/group"};
/// glibc's and musl's, by the names of real files: before glibc 2.34 these held the version.
constexpr std::string_view kLibraries[] = {"ld-linux", "ld-musl-", "ld64.so.",  "ld-2.",
                                           "libc.so.", "libc-2.",  "libc.musl-"};

bool is_library_directory(std::string_view path) {
    if (path.starts_with("usr/")) path.remove_prefix(4);
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view top = path.substr(0, end), below = path.substr(end);
    const bool library = top == "lib" || top == "lib64" || top == "lib32" || top == "libx32";
    // At most one directory more: Debian's "x86_64-linux-gnu".
    return library && (below.empty() || below.find('/', 1) == std::string_view::npos);
}

}  // namespace

bool is_read_at_every_start(std::string_view path) {
    if (std::find(std::begin(kFiles), std::end(kFiles), path) != std::end(kFiles)) return true;
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return false;
    const std::string_view name = path.substr(slash + 1);
    return name.find(".so") != std::string_view::npos &&
           std::any_of(std::begin(kLibraries), std::end(kLibraries),
                       [&](std::string_view library) { return name.starts_with(library); }) &&
           is_library_directory(path.substr(0, slash));
}

}  // namespace slipway::image::squashfs
