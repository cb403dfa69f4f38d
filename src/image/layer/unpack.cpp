// Unpacks one layer below a directory; every path is resolved by the kernel inside that directory.
// What is made there: node_writer.cpp.
// Must not: follow a link out, or apply a whiteout to what the same layer brought.
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <set>

#include "node_writer.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/layer.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kResolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
constexpr const char* kOpaqueAttribute = "user.overlay.opaque";

std::pair<std::string, std::string> split(const std::string& path) {
    size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
}

/// What a directory gets when everything below it is done.
struct DirectoryEnd {
    uint32_t mode = 0755;
    std::optional<int64_t> mtime;  ///< absent: a directory that no entry described
};

class Unpacker {
 public:
    Unpacker(EntrySource& source, const std::string& directory, UnpackStyle style)
        : source_(source), root_(directory), style_(style), writer_(source, report_) {}

    UnpackReport run() {
        Entry entry;
        while (source_.next(entry)) {
            Whiteout whiteout = classify_whiteout(entry.path);
            switch (whiteout.kind) {
                case Whiteout::Kind::none:
                    put(entry);
                    break;
                case Whiteout::Kind::remove:
                    remove(whiteout.path);
                    break;
                case Whiteout::Kind::opaque:
                    make_opaque(whiteout.path);
                    break;
            }
            ++report_.entries;
        }
        finish_directories();
        return report_;
    }

 private:
    // --- directories that lead to an entry ---

    /// The open directory (O_PATH) that holds `path`'s last component; kept until another is asked.
    int parent_of(const std::string& path) {
        std::string parent = split(path).first;
        if (!parent_ || parent != parent_path_) {
            parent_ = open_directory_for_writing(parent);
            parent_path_ = parent;
            parent_inode_ = sys::fstat(parent_->get(), parent).st_ino;
        }
        return parent_->get();
    }

    std::optional<UniqueFd> try_open(const std::string& path) {
        return sys::openat2_if_exists(root_.fd(), path.empty() ? "/" : path, O_PATH | O_DIRECTORY,
                                      kResolve);
    }

    UniqueFd open_directory_for_writing(const std::string& path) {
        try {
            if (auto fd = try_open(path)) {
                unlock(fd->get(), path);
                return std::move(*fd);
            }
        } catch (const SysError& error) {
            // A directory on the way that its owner may not search: unlocked one by one below.
            if (error.errno_value() != EACCES || path.empty()) throw;
        }
        auto [parent, name] = split(path);
        UniqueFd above = open_directory_for_writing(parent);
        if (auto fd = try_open(path)) {
            unlock(fd->get(), path);
            return std::move(*fd);
        }
        auto status = sys::stat_if_exists(above.get(), name, AT_SYMLINK_NOFOLLOW);
        if (status && S_ISLNK(status->st_mode)) {
            throw Error(ErrorKind::invalid_archive,
                        fmt::format("an entry lies below {}, a symbolic link to {} that leads to "
                                    "no directory of the image",
                                    quoted(path), quoted(sys::readlinkat(above.get(), name))));
        }
        if (status) sys::unlinkat(above.get(), name);
        sys::mkdirat(above.get(), name, 0755);
        sys::fchmodat(above.get(), name, 0755);  // whatever the umask is
        if (status && is_whiteout(*status)) set_opaque(above.get(), name);
        return sys::openat(above.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    }

    /// Give an ordinary user u+rwx on a directory of an earlier layer, until the end.
    void unlock(int fd, const std::string& path) {
        if (writer_.privileged()) return;
        struct stat status = sys::fstat(fd, path);
        if ((status.st_mode & 0700) == 0700) return;
        ends_.try_emplace(path, DirectoryEnd{status.st_mode & 07777, {}});
        sys::fchmodat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd), status.st_mode | 0700);
    }

    // --- entries ---

    void put(const Entry& entry) {
        if (entry.path.empty()) {
            ends_[""] = {entry.mode, entry.mtime};
            writer_.describe(entry, root_.fd(), ".");
            return;
        }
        int parent = parent_of(entry.path);
        std::string name = split(entry.path).second;
        auto old = sys::stat_if_exists(parent, name, AT_SYMLINK_NOFOLLOW);
        if (entry.type == EntryType::hardlink) {
            put_hard_link(entry, parent, name, old);
        } else {
            if (old) clear_place(entry, parent, name, *old);
            if (!writer_.make(entry, parent, name)) return;
            if (entry.type == EntryType::directory) ends_[entry.path] = {entry.mode, entry.mtime};
        }
        own_.emplace(parent_inode_, name);
    }

    /// Take away what an entry replaces; a directory over a directory stays.
    void clear_place(const Entry& entry, int parent, const std::string& name,
                     const struct stat& old) {
        if (S_ISDIR(old.st_mode)) {
            if (entry.type == EntryType::directory) return;
            remove_tree(parent, name);
            return;
        }
        sys::unlinkat(parent, name);
        if (entry.type == EntryType::directory && is_whiteout(old)) {
            sys::mkdirat(parent, name, 0700);
            set_opaque(parent, name);
        }
    }

    void put_hard_link(const Entry& entry, int parent, const std::string& name,
                       const std::optional<struct stat>& old) {
        auto [target_parent, target_name] = split(entry.link_target);
        auto directory = try_open(target_parent);
        auto target = directory
                          ? sys::stat_if_exists(directory->get(), target_name, AT_SYMLINK_NOFOLLOW)
                          : std::nullopt;
        if (!target || S_ISDIR(target->st_mode) || is_whiteout(*target)) {
            throw Error(
                ErrorKind::invalid_archive,
                fmt::format("{} is a hard link to {}, which is {}", quoted(entry.path),
                            quoted(entry.link_target),
                            target && S_ISDIR(target->st_mode) ? "a directory" : "not there"))
                .note(style_ == UnpackStyle::overlay
                          ? "the layer is unpacked alone: the target must be in the same layer"
                          : "neither this layer nor the layers below it have the target");
        }
        if (old && old->st_ino == target->st_ino && old->st_dev == target->st_dev) return;
        if (old) clear_place(entry, parent, name, *old);
        sys::linkat(directory->get(), target_name, parent, name);
    }

    // --- the end of directories ---

    /// Deepest first, so that a parent without permissions does not shut its children out, and so
    /// that the times of parents stay.
    void finish_directories() {
        forget_parent();
        for (auto it = ends_.rbegin(); it != ends_.rend(); ++it) {
            const auto& [path, end] = *it;
            auto fd = sys::openat2_if_exists(root_.fd(), path.empty() ? "/" : path,
                                             O_RDONLY | O_DIRECTORY, kResolve);
            if (!fd) continue;  // replaced by a later entry
            if (end.mtime) sys::utimensat_nofollow(fd->get(), ".", *end.mtime, 0);
            sys::fchmod(fd->get(), end.mode, path);
        }
    }

    // --- whiteouts ---

    static bool is_whiteout(const struct stat& status) {
        return S_ISCHR(status.st_mode) && status.st_rdev == 0;
    }

    void set_opaque(int parent, const std::string& name) {
        sys::setxattr_nofollow(fmt::format("/proc/self/fd/{}/{}", parent, name), kOpaqueAttribute,
                               "y");
    }

    void remove(const std::string& path) {
        auto [parent_name, name] = split(path);
        if (style_ == UnpackStyle::overlay) {
            int parent = parent_of(path);
            auto old = sys::stat_if_exists(parent, name, AT_SYMLINK_NOFOLLOW);
            if (!old) {
                sys::mknodat(parent, name, S_IFCHR, 0);
            } else if (S_ISDIR(old->st_mode)) {
                set_opaque(parent, name);
            }
            return;
        }
        auto there = try_open(parent_name);
        if (!there) return;  // nothing there that could go
        unlock(there->get(), parent_name);
        remove_older(there->get(), name);
        forget_parent();
    }

    void make_opaque(const std::string& path) {
        if (style_ == UnpackStyle::overlay) {
            int directory = parent_of(path.empty() ? "x" : path + "/x");
            set_opaque(directory, ".");
            return;
        }
        // "Opaque never through a symbolic link": the directory itself is meant.
        auto directory = sys::openat2_if_exists(root_.fd(), path.empty() ? "/" : path,
                                                O_PATH | O_NOFOLLOW, kResolve);
        if (!directory || !S_ISDIR(sys::fstat(directory->get(), path).st_mode)) return;
        unlock(directory->get(), path);
        for (const std::string& name : sys::list_directory(directory->get(), path)) {
            remove_older(directory->get(), name);
        }
        forget_parent();
    }

    /// Remove what lower layers left at a name; what this layer brought stays. Returns true if
    /// nothing is left there.
    bool remove_older(int parent, const std::string& name) {
        auto status = sys::stat_if_exists(parent, name, AT_SYMLINK_NOFOLLOW);
        if (!status) return true;
        bool own = own_.contains({sys::fstat(parent, name).st_ino, name});
        if (!S_ISDIR(status->st_mode)) {
            if (!own) sys::unlinkat(parent, name);
            return !own;
        }
        if (own_.empty()) {
            remove_tree(parent, name);
            return true;
        }
        if (!writer_.privileged() && (status->st_mode & 0700) != 0700) {
            sys::fchmodat(parent, name, status->st_mode | 0700);
        }
        UniqueFd directory = sys::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        bool empty = true;
        for (const std::string& child : sys::list_directory(directory.get(), name)) {
            empty = remove_older(directory.get(), child) && empty;
        }
        if (!empty || own) return false;
        sys::unlinkat(parent, name, AT_REMOVEDIR);
        return true;
    }

    void forget_parent() { parent_.reset(); }

    EntrySource& source_;
    Root root_;
    UnpackStyle style_;
    UnpackReport report_;
    NodeWriter writer_;
    std::optional<UniqueFd> parent_;
    std::string parent_path_;
    ino_t parent_inode_ = 0;
    std::set<std::pair<ino_t, std::string>> own_;  ///< (directory, name) of this layer's entries
    std::map<std::string, DirectoryEnd> ends_;
};

}  // namespace

UnpackReport unpack_layer(EntrySource& source, const std::string& directory, UnpackStyle style) {
    try {
        return Unpacker(source, directory, style).run();
    } catch (Error& error) {
        error.note(fmt::format("while unpacking a layer into {}", quoted(directory)));
        throw;
    }
}

}  // namespace slipway::image
