// Paths as text, and paths beneath a root resolved by the kernel.
// Must not: check a path and then use it by name.
#include "slipway/base/path.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/users.hpp"

namespace slipway {
namespace {

std::vector<std::string_view> components(std::string_view path) {
    std::vector<std::string_view> parts;
    while (!path.empty()) {
        const size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        if (!part.empty() && part != ".") parts.push_back(part);
        if (slash == std::string_view::npos) break;
        path.remove_prefix(slash + 1);
    }
    return parts;
}

std::string joined(const std::vector<std::string_view>& parts) {
    std::string out;
    for (const auto part : parts) {
        if (!out.empty()) out += '/';
        out += part;
    }
    return out;
}

}  // namespace

std::string join_path(std::string_view base, std::string_view name) {
    while (!name.empty() && name.front() == '/') name.remove_prefix(1);
    std::string out(base);
    if (name.empty()) return out;
    if (!out.empty() && out.back() != '/') out += '/';
    return out += name;
}

std::string lexically_normal(std::string_view path) {
    const bool absolute = !path.empty() && path.front() == '/';
    std::vector<std::string_view> kept;
    for (const auto part : components(path)) {
        if (part != "..")
            kept.push_back(part);
        else if (!kept.empty() && kept.back() != "..")
            kept.pop_back();
        else if (!absolute)
            kept.push_back(part);
    }
    const std::string text = joined(kept);
    if (absolute) return "/" + text;
    return text.empty() ? "." : text;
}

std::string clean_member_path(std::string_view name) {
    if (name.find('\0') != std::string_view::npos)
        throw Error(ErrorKind::unsafe_path,
                    fmt::format("the member name {} holds a NUL byte", quoted(name)));
    const auto parts = components(name);
    for (const auto part : parts)
        if (part == "..")
            throw Error(ErrorKind::unsafe_path,
                        fmt::format("the member {} would leave the directory it is unpacked to",
                                    quoted(name)))
                .hint(
                    "do not trust this archive; ask its author for one without \"..\" in its "
                    "names");
    return joined(parts);
}

std::string_view base_name(std::string_view path) {
    const size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view parent_path(std::string_view path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return "";
    return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

std::string absolute_path(const std::string& path) {
    if (!path.empty() && path.front() == '/') return lexically_normal(path);
    char buffer[PATH_MAX];
    if (::getcwd(buffer, sizeof buffer) == nullptr)
        throw SysError("cannot find the working directory", "getcwd")
            .hint("change to a directory that is there, or name files by absolute paths");
    return lexically_normal(join_path(buffer, path));
}

std::optional<std::string> find_program(const std::string& name, std::string_view path_list) {
    const auto executable = [](const std::string& path) {
        const auto status = sys::stat_if_exists(AT_FDCWD, path);
        return status && S_ISREG(status->st_mode) && ::access(path.c_str(), X_OK) == 0;
    };
    if (name.find('/') != std::string::npos)
        return executable(name) ? std::optional(name) : std::nullopt;
    while (true) {
        const size_t colon = path_list.find(':');
        const std::string_view directory = path_list.substr(0, colon);
        std::string candidate = join_path(directory.empty() ? "." : directory, name);
        if (executable(candidate)) return candidate;
        if (colon == std::string_view::npos) return std::nullopt;
        path_list.remove_prefix(colon + 1);
    }
}

std::string home_directory() {
    if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return home;
    if (const auto user = find_user(::getuid()); user && user->home.starts_with('/'))
        return user->home;
    return "/";
}

Root::Root(const std::string& directory)
    : fd_(sys::open(directory, O_PATH | O_DIRECTORY)), name_(directory) {}
Root::Root(UniqueFd directory, std::string name)
    : fd_(std::move(directory)), name_(std::move(name)) {}

std::optional<UniqueFd> Root::open_if_exists(const std::string& path, int flags) const {
    return sys::openat2_if_exists(fd(), path.empty() ? "/" : path, flags,
                                  RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

UniqueFd Root::open(const std::string& path, int flags, mode_t mode) const {
    return sys::openat2(fd(), path.empty() ? "/" : path, flags,
                        RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode);
}

std::optional<struct stat> Root::stat(const std::string& path, bool follow) const {
    const auto file = open_if_exists(path, O_PATH | (follow ? 0 : O_NOFOLLOW));
    if (!file) return std::nullopt;
    return sys::fstat(file->get(), path);
}

UniqueFd Root::open_parent(const std::string& path, bool create, mode_t mode) const {
    const std::string clean = lexically_normal("/" + path);
    const std::string parent(parent_path(clean));
    return create ? make_directories(parent, mode) : open(parent, O_PATH | O_DIRECTORY);
}

UniqueFd Root::make_directories(const std::string& path, mode_t mode) const {
    if (auto there = open_if_exists(path, O_PATH | O_DIRECTORY)) return std::move(*there);
    const std::string clean = lexically_normal("/" + path);
    if (clean == "/") return open("/", O_PATH | O_DIRECTORY);
    UniqueFd parent = make_directories(std::string(parent_path(clean)), mode);
    if (!sys::mkdirat_if_absent(parent.get(), std::string(base_name(clean)), mode) &&
        !open_if_exists(clean, O_PATH | O_DIRECTORY))
        throw Error(ErrorKind::conflict,
                    fmt::format("{} below {} is not a directory", quoted(clean), quoted(name_)));
    return open(clean, O_PATH | O_DIRECTORY);
}

std::optional<std::string> Root::read_file_if_exists(const std::string& path) const {
    const auto file = open_if_exists(path, O_RDONLY | O_NONBLOCK);
    if (!file) return std::nullopt;
    std::string text;
    char buffer[4096];
    while (const size_t n = sys::read(file->get(), buffer, sizeof buffer, path))
        text.append(buffer, n);
    return text;
}

}  // namespace slipway
