// Walks a directory of the host, or an overlayfs upper directory, as a stream of entries.
// Must not: follow a symbolic link below the directory, or change anything but, in an upper and for
// as long as it reads there, modes that lock their owner out.
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "../dataset/walk.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/own_file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::image {
namespace {

enum class Walk { directory, dataset, overlay_upper };

constexpr const char* kOpaqueAttribute = "user.overlay.opaque";
constexpr const char* kWhiteoutAttribute = "user.overlay.whiteout";

/// A file or directory that its own mode (000, for example) locks us out of, readable until this
/// ends. In a container such a mode stops nobody: root there may read everything.
class Unlocked {
 public:
    Unlocked(int dir, const std::string& name, mode_t mode, mode_t readable) : mode_(mode) {
        sys::fchmodat(dir, name, mode | readable);
        fd_ = sys::openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    }
    Unlocked(Unlocked&&) = default;
    Unlocked& operator=(Unlocked&&) = delete;
    ~Unlocked() {
        if (fd_) [[maybe_unused]]
            const int ignored = ::fchmod(fd_.get(), mode_);
    }

 private:
    UniqueFd fd_;
    mode_t mode_;
};

/// One level of the walk: what is still to be done in a directory.
struct Level {
    std::string path;
    std::vector<std::string> names;
    size_t at = 0;
    bool opaque = false;  ///< its opaque mark is still to be told
    std::unique_ptr<Unlocked> unlocked = nullptr;
};

class DirectorySource : public EntrySource {
 public:
    DirectorySource(const std::string& directory, OwnerOf owner_of, Walk walk)
        : directory_(directory),
          owner_of_(std::move(owner_of)),
          walk_(walk),
          top_(sys::open(directory, O_RDONLY | O_DIRECTORY)) {}

    bool next(Entry& entry) override {
        file_.reset();
        if (!started_) {
            started_ = true;
            entry = Entry{};
            struct stat status = sys::fstat(top_.get(), directory_);
            current_ = sys::openat(top_.get(), ".", O_RDONLY | O_DIRECTORY);
            describe(entry, "", ".", status);
            enter("");
            // An upper's own mode and time are the build's scratch, not the image's.
            if (walk_ != Walk::overlay_upper) return true;
        }
        while (!levels_.empty()) {
            Level& level = levels_.back();
            if (level.opaque) {
                level.opaque = false;
                entry = mark(level.path, ".wh..wh..opq");
                return true;
            }
            if (level.at == level.names.size()) {
                leave();
                continue;
            }
            std::string name = level.names[level.at++];
            if (visit(entry, level.path, name)) return true;
        }
        return false;
    }

    size_t read(void* data, size_t size_bytes) override {
        if (!file_ || left_ == 0) return 0;
        size_t want = static_cast<size_t>(std::min<uint64_t>(size_bytes, left_));
        size_t got = sys::read(file_->get(), data, want, join_path(directory_, file_path_));
        if (got == 0) {
            throw Error(ErrorKind::io, fmt::format("{} became shorter while it was read",
                                                   quoted(join_path(directory_, file_path_))));
        }
        left_ -= got;
        return got;
    }

 private:
    std::string full(const std::string& path) const {
        return path.empty() ? directory_ : join_path(directory_, path);
    }

    static Entry mark(const std::string& directory, const std::string& name) {
        Entry entry;
        entry.path = directory.empty() ? name : directory + "/" + name;
        entry.mode = 0644;
        return entry;
    }

    // Go down into the directory that current_ is.
    void enter(const std::string& path) {
        Level level;
        level.path = path;
        level.names = sys::list_directory(current_.get(), full(path));
        if (walk_ == Walk::dataset)
            std::stable_sort(level.names.begin(), level.names.end(), natural_less);
        level.opaque = opaque_;
        opaque_ = false;
        levels_.push_back(std::move(level));
    }

    // Go up; the parent is opened again, so that the depth of a tree costs no descriptors.
    void leave() {
        levels_.pop_back();
        if (levels_.empty()) return;
        const std::string& path = levels_.back().path;
        current_ = sys::openat2(top_.get(), path.empty() ? "." : path, O_RDONLY | O_DIRECTORY,
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    }

    /// Make an entry of one name; false if it does not belong into the stream.
    bool visit(Entry& entry, const std::string& parent, const std::string& name) {
        std::string path = parent.empty() ? name : parent + "/" + name;
        auto status = sys::stat_if_exists(current_.get(), name, AT_SYMLINK_NOFOLLOW);
        if (!status || S_ISSOCK(status->st_mode)) return false;
        if (walk_ == Walk::overlay_upper && S_ISCHR(status->st_mode) && status->st_rdev == 0) {
            entry = mark(parent, ".wh." + name);
            return true;
        }
        entry = Entry{};
        whiteout_ = false;
        if (!S_ISDIR(status->st_mode) && status->st_nlink > 1 && hard_link(entry, path, *status)) {
            return true;
        }
        auto unlocked = unlock(name, *status);
        describe(entry, path, name, *status);
        if (whiteout_) {
            entry = mark(parent, ".wh." + name);
            return true;
        }
        if (S_ISDIR(status->st_mode)) {
            current_ = sys::openat(current_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
            enter(path);
            levels_.back().unlocked = std::move(unlocked);
        } else if (S_ISREG(status->st_mode)) {
            open_file(entry, path, name);
        }
        return true;
    }

    std::unique_ptr<Unlocked> unlock(const std::string& name, const struct stat& status) const {
        const mode_t readable = S_ISDIR(status.st_mode) ? 0500 : S_ISREG(status.st_mode) ? 0400 : 0;
        if (walk_ != Walk::overlay_upper || (status.st_mode & readable) == readable) return nullptr;
        return std::make_unique<Unlocked>(current_.get(), name, status.st_mode & 07777, readable);
    }

    void open_file(Entry& entry, const std::string& path, const std::string& name) {
        try {
            file_ = open_own_file(current_.get(), name);
        } catch (Error& error) {
            error.note(fmt::format("while reading {}", quoted(full(path))));
            throw;
        }
        struct stat status = sys::fstat(file_->get(), full(path));
        entry.size_bytes = left_ = static_cast<uint64_t>(status.st_size);
        file_path_ = path;
    }

    bool hard_link(Entry& entry, const std::string& path, const struct stat& status) {
        auto [first, is_new] = seen_.emplace(std::pair(status.st_dev, status.st_ino), path);
        if (is_new) return false;
        set_metadata(entry, path, status);
        entry.type = EntryType::hardlink;
        entry.link_target = first->second;
        return true;
    }

    void set_metadata(Entry& entry, const std::string& path, const struct stat& status) const {
        entry.path = path;
        entry.mode = status.st_mode & 07777;
        entry.uid = status.st_uid;
        entry.gid = status.st_gid;
        entry.mtime = status.st_mtim.tv_sec;
        if (owner_of_) std::tie(entry.uid, entry.gid) = owner_of_(path, entry.uid, entry.gid);
    }

    void describe(Entry& entry, const std::string& path, const std::string& name,
                  const struct stat& status) {
        set_metadata(entry, path, status);
        switch (status.st_mode & S_IFMT) {
            case S_IFREG:
                entry.type = EntryType::file;
                break;
            case S_IFDIR:
                entry.type = EntryType::directory;
                break;
            case S_IFLNK:
                entry.type = EntryType::symlink;
                entry.mode = 0777;
                entry.link_target = sys::readlinkat(current_.get(), name);
                return;  // no user.* attributes on links
            case S_IFIFO:
                entry.type = EntryType::fifo;
                break;
            case S_IFCHR:
                entry.type = EntryType::char_device;
                break;
            case S_IFBLK:
                entry.type = EntryType::block_device;
                break;
            default:
                entry.type = EntryType::socket;
                break;
        }
        if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) {
            entry.device_major = major(status.st_rdev);
            entry.device_minor = minor(status.st_rdev);
        }
        take_xattrs(entry, name);
    }

    void take_xattrs(Entry& entry, const std::string& name) {
        std::string path = fmt::format("/proc/self/fd/{}/{}", current_.get(), name);
        for (const std::string& key : sys::listxattr_nofollow(path)) {
            if (key.starts_with("user.overlay.")) {
                if (walk_ == Walk::overlay_upper) take_overlay_mark(entry, key, path);
                continue;
            }
            bool wanted = key.starts_with("user.") ? !key.starts_with("user.slipway.")
                                                   : key == "security.capability";
            if (!wanted) continue;
            if (auto value = sys::getxattr_nofollow(path, key)) entry.xattrs[key] = *value;
        }
    }

    // Source: Linux Documentation/filesystems/overlayfs.rst, "Whiteouts and opaque directories",
    // "User xattr".
    void take_overlay_mark(const Entry& entry, const std::string& key, const std::string& path) {
        if (key == kOpaqueAttribute && entry.type == EntryType::directory) {
            opaque_ = sys::getxattr_nofollow(path, key) == "y";
        } else if (key == kWhiteoutAttribute && entry.type == EntryType::file) {
            whiteout_ = true;
        } else if (key == "user.overlay.redirect" || key == "user.overlay.metacopy") {
            throw Error(ErrorKind::unsupported,
                        fmt::format("the overlay directory {} holds a {} mark at {}",
                                    quoted(directory_), key.substr(13), quoted(entry.path)))
                .hint("mount the overlay with redirect_dir=off,metacopy=off");
        }
    }

    std::string directory_;
    OwnerOf owner_of_;
    Walk walk_;
    UniqueFd top_;
    UniqueFd current_;  ///< the directory of levels_.back()
    std::vector<Level> levels_;
    std::map<std::pair<dev_t, ino_t>, std::string> seen_;  ///< files with several names
    std::optional<UniqueFd> file_;
    std::string file_path_;
    uint64_t left_ = 0;
    bool started_ = false;
    bool opaque_ = false;    ///< found by take_overlay_mark
    bool whiteout_ = false;  ///< the same
};

}  // namespace

std::unique_ptr<EntrySource> open_directory(const std::string& directory, OwnerOf owner_of) {
    return std::make_unique<DirectorySource>(directory, std::move(owner_of), Walk::directory);
}

std::unique_ptr<EntrySource> open_dataset_directory(const std::string& directory) {
    return std::make_unique<DirectorySource>(directory, OwnerOf(), Walk::dataset);
}

std::unique_ptr<EntrySource> open_overlay_upper(const std::string& directory, OwnerOf owner_of) {
    return std::make_unique<DirectorySource>(directory, std::move(owner_of), Walk::overlay_upper);
}

}  // namespace slipway::image
