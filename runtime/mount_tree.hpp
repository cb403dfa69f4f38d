// A container's root while it is put together: mount points found or made, trees attached.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"
#include "slipway/base/path.hpp"

namespace slipway::runtime {

/// Take a detached copy of the mounts at a host path. Throws: SysError naming the path.
UniqueFd clone_tree(const std::string& source, bool recursive = true);
/// "/proc/self/fd/N": the one name under which mount(2) takes a descriptor.
std::string fd_path(int fd);

/// The root of a container that is attached somewhere in our own mount namespace. Every path is
/// resolved inside that root and used through a descriptor.
class MountTree {
 public:
    enum class Type { directory, file };

    /// `holder` and `name`: the directory and the entry on which the root is mounted, by which its
    /// topmost mount is found again.
    MountTree(UniqueFd holder, std::string name);

    const Root& root() const { return root_; }
    /// Tell that the holder is a tmpfs of our own: layers of overlays may lie in it.
    void allow_overlays() { overlays_allowed_ = true; }
    /// Where `path` leads, links followed inside the root; an empty descriptor if nothing is there.
    UniqueFd find(const std::string& path) const;
    /// As find(), and make what is missing, dangling links' targets included. Where the image is
    /// read-only its directory is covered by a small tmpfs that shows the same entries, so that the
    /// image itself never changes. Throws: SysError.
    UniqueFd make(const std::string& path, Type type);
    /// Attach a detached tree to an open mount point.
    void attach(const UniqueFd& tree, const UniqueFd& target, const std::string& path);
    /// Remember what is mounted at `path`: make() makes nothing in directories of the host, which
    /// would show there. Throws from then on: Error(conflict).
    void note_mount(const std::string& path, bool of_host) { mounts_.push_back({path, of_host}); }
    /// Make the covering tmpfs read-only. Call once everything is attached.
    void seal();
    /// Make this root the process's, detach the old one, and stand in "/". `covers`: how many
    /// mounts of ours lie over the old root directory; they go first.
    void enter(int covers = 0);

    /// Make this root the process's by laying it over the old one, and stand in "/". The old tree
    /// stays in this mount namespace, beneath and out of reach of every path, until the namespace
    /// ends: to detach it would wait for a grace period of the kernel, and pivot_root looks at
    /// every process of the host. Whoever enters the namespace stands in the new root, too.
    void enter_above();

    /// What make() created in the root itself, in order; paths as seen from inside.
    struct Made {
        std::string path;
        Type type;
    };
    const std::vector<Made>& made() const { return made_; }

 private:
    UniqueFd make_below(const std::string& path, Type type, int links_left);
    UniqueFd follow_dangling(const UniqueFd& parent, const std::string& name, Type type,
                             int links_left);
    void refuse_host_directory(const UniqueFd& parent, const std::string& path) const;
    void cover(const UniqueFd& directory);
    bool cover_by_overlay(const UniqueFd& directory, const std::string& real);
    void cover_by_binds(const UniqueFd& directory, const std::string& real);
    void seal_below(const std::string& path);
    std::string real_path(const UniqueFd& file) const;
    const std::string& prefix() const;

    UniqueFd holder_;
    std::string name_;
    Root root_;
    mutable std::optional<std::string> prefix_;  ///< the root's own path, as /proc names it
    struct Mounted {
        std::string path;
        bool of_host;
    };
    std::vector<Mounted> mounts_;
    struct Cover {
        std::string path;  ///< as seen from inside
        UniqueFd top;
    };
    std::vector<Cover> covers_;
    bool overlays_allowed_ = false;
    unsigned overlays_ = 0;
    std::vector<Made> made_;
};

}  // namespace slipway::runtime
