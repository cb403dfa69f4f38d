// Finds and makes mount points inside a root that is not trusted, and attaches trees to them.
// Must not: decide what is mounted where, or resolve a path outside of the root.
#include "mount_tree.hpp"

#include <fmt/core.h>
#include <linux/mount.h>
#include <sys/mount.h>

#include <cerrno>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

constexpr int kMaxLinks = 40;  // as the kernel's MAXSYMLINKS

UniqueFd open_top(const UniqueFd& holder, const std::string& name) {
    return sys::openat(holder.get(), name, O_PATH | O_DIRECTORY);
}

}  // namespace

std::string fd_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

UniqueFd clone_tree(const std::string& source, bool recursive) {
    return sys::open_tree(AT_FDCWD, source,
                          OPEN_TREE_CLONE | static_cast<unsigned>(recursive ? AT_RECURSIVE : 0));
}

MountTree::MountTree(UniqueFd holder, std::string name)
    : holder_(std::move(holder)),
      name_(std::move(name)),
      root_(open_top(holder_, name_), "the image") {}

/// Asked for when it is needed: /proc takes its time.
const std::string& MountTree::prefix() const {
    if (!prefix_) prefix_ = sys::readlinkat(AT_FDCWD, fd_path(root_.fd()));
    if (*prefix_ == "/") prefix_->clear();
    return *prefix_;
}

std::string MountTree::real_path(const UniqueFd& file) const {
    const std::string path = sys::readlinkat(AT_FDCWD, fd_path(file.get()));
    if (!path.starts_with(prefix()))
        throw Error(ErrorKind::internal,
                    fmt::format("{} is outside of the root", slipway::quoted(path)));
    return path.size() == prefix().size() ? "/" : path.substr(prefix().size());
}

UniqueFd MountTree::find(const std::string& path) const {
    auto found = root_.open_if_exists(path, O_PATH);
    return found ? std::move(*found) : UniqueFd();
}

UniqueFd MountTree::make(const std::string& path, Type type) {
    return make_below(lexically_normal("/" + path), type, kMaxLinks);
}

UniqueFd MountTree::make_below(const std::string& path, Type type, int links_left) {
    if (auto found = find(path)) return found;
    const std::string name(base_name(path));
    UniqueFd parent = make_below(std::string(parent_path(path)), Type::directory, links_left);
    if (const auto status = sys::stat_if_exists(parent.get(), name, AT_SYMLINK_NOFOLLOW);
        status && S_ISLNK(status->st_mode))
        return follow_dangling(parent, name, type, links_left);
    refuse_host_directory(parent, path);
    for (bool covered = false;; covered = true) {
        try {
            if (type == Type::directory)
                sys::mkdirat(parent.get(), name, 0755);
            else
                sys::openat(parent.get(), name, O_CREAT | O_EXCL | O_WRONLY, 0644);
            break;
        } catch (const SysError& error) {
            if (error.errno_value() != EROFS || covered) throw;
        }
        const std::string real = real_path(parent);
        cover(parent);
        parent = root_.open(real, O_PATH | O_DIRECTORY);
    }
    made_.push_back({join_path(real_path(parent), name), type});
    return sys::openat(parent.get(), name, O_PATH | O_NOFOLLOW);
}

UniqueFd MountTree::follow_dangling(const UniqueFd& parent, const std::string& name, Type type,
                                    int links_left) {
    const std::string target = sys::readlinkat(parent.get(), name);
    if (links_left == 0)
        throw SysError(ELOOP,
                       fmt::format("cannot follow the link {} in the image", slipway::quoted(name)),
                       "readlinkat");
    const std::string path =
        target.starts_with('/') ? target : join_path(real_path(parent), target);
    return make_below(lexically_normal(path), type, links_left - 1);
}

/// The mount that holds `parent` is the last one made at or above it.
void MountTree::refuse_host_directory(const UniqueFd& parent, const std::string& path) const {
    if (mounts_.empty()) return;
    const std::string real = real_path(parent);
    const Mounted* holder = nullptr;
    for (const auto& mount : mounts_) {
        const UniqueFd top = find(mount.path);
        if (!top) continue;
        const std::string place = real_path(top);
        if (place == "/" || real == place || real.starts_with(place + "/")) holder = &mount;
    }
    if (holder == nullptr || !holder->of_host) return;
    throw Error(ErrorKind::conflict,
                fmt::format("the mount point {} would be made in a directory of the host, {}",
                            slipway::quoted(path), slipway::quoted(holder->path)))
        .hint("make it yourself first, or name a destination outside of that directory");
}

/// Lay something writable over `directory` that shows the same entries.
void MountTree::cover(const UniqueFd& directory) {
    const std::string real = real_path(directory);
    seal_below(real);  // what is shown of them from now on is a copy, which nobody would seal
    if (!cover_by_overlay(directory, real)) cover_by_binds(directory, real);
    if (real == "/") root_ = Root(open_top(holder_, name_), "the image");
    covers_.push_back({real, root_.open(real, O_PATH | O_DIRECTORY)});
}

/// One mount, however many entries there are. Not for the root directory, below which everything
/// would be read through the overlay, and not where something is mounted below, which an overlay
/// does not show. False when it cannot be had.
bool MountTree::cover_by_overlay(const UniqueFd& directory, const std::string& real) {
    if (!overlays_allowed_ || real == "/") return false;
    for (const auto& mount : mounts_) {
        const UniqueFd top = find(mount.path);
        if (top && real_path(top).starts_with(real + "/")) return false;
    }
    const std::string name = fmt::format("cover-{}", overlays_++);
    UniqueFd parts[2];
    for (const int i : {0, 1}) {
        const std::string part = name + (i == 0 ? "-upper" : "-work");
        sys::mkdirat(holder_.get(), part, 0755);
        parts[i] = sys::openat(holder_.get(), part, O_PATH | O_DIRECTORY);
    }
    const std::string options =
        fmt::format("userxattr,lowerdir={},upperdir={},workdir={}", fd_path(directory.get()),
                    fd_path(parts[0].get()), fd_path(parts[1].get()));
    return ::mount("overlay", fd_path(directory.get()).c_str(), "overlay", MS_NOSUID | MS_NODEV,
                   options.c_str()) == 0;
}

/// A tmpfs that shows each of the entries by a bind of its own.
void MountTree::cover_by_binds(const UniqueFd& directory, const std::string& real) {
    const struct stat status = sys::fstat(directory.get(), real);
    const auto names =
        sys::list_directory(sys::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY).get(), real);
    sys::mount("tmpfs", fd_path(directory.get()), "tmpfs", MS_NOSUID | MS_NODEV,
               fmt::format("size=1m,mode={:o}", status.st_mode & 07777));
    const UniqueFd top =
        real == "/" ? open_top(holder_, name_) : root_.open(real, O_PATH | O_DIRECTORY);
    for (const auto& name : names) {
        const auto entry = sys::stat_if_exists(directory.get(), name, AT_SYMLINK_NOFOLLOW);
        if (!entry) continue;
        if (S_ISLNK(entry->st_mode)) {
            sys::symlinkat(sys::readlinkat(directory.get(), name), top.get(), name);
            continue;
        }
        const UniqueFd tree = sys::open_tree(
            directory.get(), name,
            static_cast<unsigned>(OPEN_TREE_CLONE | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW));
        if (S_ISDIR(entry->st_mode))
            sys::mkdirat(top.get(), name, 0755);
        else
            sys::openat(top.get(), name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        sys::move_mount(tree.get(), sys::openat(top.get(), name, O_PATH | O_NOFOLLOW).get(),
                        join_path(real, name));
    }
}

void MountTree::attach(const UniqueFd& tree, const UniqueFd& target, const std::string& path) {
    try {
        sys::move_mount(tree.get(), target.get(), path);
    } catch (const SysError&) {
        const bool onto_directory = S_ISDIR(sys::fstat(target.get(), path).st_mode);
        if (S_ISDIR(sys::fstat(tree.get(), path).st_mode) == onto_directory) throw;
        throw Error(ErrorKind::conflict,  // the kernel says EINVAL
                    onto_directory ? "a file cannot be shown in place of a directory of the image"
                                   : "a directory cannot be shown in place of a file of the image")
            .hint(onto_directory ? "name a file as the destination, for example one below it"
                                 : "name a directory as the destination");
    }
}

/// A cover that is sealed can be covered again.
void MountTree::seal_below(const std::string& path) {
    std::erase_if(covers_, [&](const Cover& cover) {
        if (path != "/" && !cover.path.starts_with(path + "/")) return false;
        sys::mount("", fd_path(cover.top.get()), "",
                   MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV);
        return true;
    });
}

void MountTree::seal() { seal_below("/"); }

void MountTree::enter(int covers) {
    sys::fchdir(open_top(holder_, name_).get(), "the image");
    sys::pivot_root(".", ".");  // pivot_root(2), NOTES: needs no place for the old root
    // The old root now lies over the new one, and what covered it on top: umount takes the topmost.
    for (int i = 0; i <= covers; ++i) sys::umount(".", MNT_DETACH);
    sys::chdir("/");
}

void MountTree::enter_above() {
    const UniqueFd top = open_top(holder_, name_);
    sys::move_mount(top.get(), sys::open("/", O_PATH | O_DIRECTORY).get(), "/");
    sys::fchdir(top.get(), "the image");
    sys::chroot(".");
}

}  // namespace slipway::runtime
