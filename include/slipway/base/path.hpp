// Paths as text, and paths beneath a root that is not to be trusted.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "slipway/base/fd.hpp"

namespace slipway {

/// Join with exactly one "/" between; an absolute `name` is taken below `base`.
std::string join_path(std::string_view base, std::string_view name);
/// Clean "." , "//" and ".." textually; an absolute path stays absolute and cannot climb above "/".
std::string lexically_normal(std::string_view path);
/// Return the normal form of a member name of an archive, without a leading "/" or "./"; "" is the
/// root itself. Throws: Error(unsafe_path) when a component is ".."  or the name holds a NUL byte.
std::string clean_member_path(std::string_view name);
std::string_view base_name(std::string_view path);
std::string_view parent_path(std::string_view path);
/// Make a path absolute against the working directory; does not resolve links.
std::string absolute_path(const std::string& path);
/// Find an executable as a shell would, in the directories of `path_list`; std::nullopt if there is
/// none.
std::optional<std::string> find_program(const std::string& name, std::string_view path_list);
/// The user's $HOME, else the passwd entry's directory.
std::string home_directory();

/// An open directory beneath which every path is resolved by the kernel (openat2, RESOLVE_IN_ROOT):
/// links are followed as if the directory were "/", and nothing leads outside. Paths may be given
/// with or without a leading "/".
class Root {
 public:
    explicit Root(const std::string& directory);
    explicit Root(UniqueFd directory, std::string name);
    int fd() const { return fd_.get(); }
    const std::string& name() const { return name_; }

    /// std::nullopt if it is not there. `flags` may hold O_PATH, O_NOFOLLOW, O_DIRECTORY...
    std::optional<UniqueFd> open_if_exists(const std::string& path, int flags) const;
    UniqueFd open(const std::string& path, int flags, mode_t mode = 0) const;
    std::optional<struct stat> stat(const std::string& path, bool follow = true) const;
    /// Open the directory that holds `path`'s last component, making missing directories with
    /// `mode`.
    UniqueFd open_parent(const std::string& path, bool create, mode_t mode = 0755) const;
    /// Make `path` and its missing parents, following links inside the root; returns it open
    /// (O_PATH).
    UniqueFd make_directories(const std::string& path, mode_t mode = 0755) const;
    std::optional<std::string> read_file_if_exists(const std::string& path) const;

 private:
    UniqueFd fd_;
    std::string name_;
};

}  // namespace slipway
