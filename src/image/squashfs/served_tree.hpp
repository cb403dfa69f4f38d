// A squashfs tree as FUSE sees it: node ids, attributes, places in listings.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 35
#endif

#include <fcntl.h>
#include <fmt/format.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>

#include "reader.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image::squashfs {

inline constexpr double kForever = 86400.0 * 3650;  // seconds: the tree never changes
inline constexpr size_t kMostCursors = 256;
inline constexpr int kMostWarnings = 3;

/// Node ids: FUSE wants 1 for the root; every other is its inode reference, moved by 2.
class Server {
 public:
    explicit Server(const SquashfsServerOptions& options)
        : options_(options), reader_(options.image->reader()) {
        for (const auto& point : options.mount_points) show_mount_point(point);
    }

    const ImageReader& reader() const { return reader_; }

    InodeInfo inode(fuse_ino_t node) const {
        if (node >= kFirstShown) return shown_inode(node);
        return node == FUSE_ROOT_ID ? reader_.root() : reader_.inode(node - 2);
    }
    fuse_ino_t node_of(uint64_t reference) const {
        return reference == reader_.super().root ? FUSE_ROOT_ID : reference + 2;
    }

    struct stat describe(const InodeInfo& inode) const {
        struct stat st = {};
        st.st_ino = inode.number;
        st.st_mode = inode.mode;
        st.st_nlink = inode.links;
        st.st_uid = options_.show_uid.value_or(inode.uid);
        st.st_gid = options_.show_gid.value_or(inode.gid);
        st.st_size = static_cast<off_t>(inode.size_bytes);
        st.st_blksize = reader_.super().block_size;
        st.st_blocks = static_cast<blkcnt_t>((inode.size_bytes + 511) / 512);
        st.st_mtime = st.st_atime = st.st_ctime = inode.mtime;
        if (S_ISCHR(inode.mode) || S_ISBLK(inode.mode))
            st.st_rdev = makedev((inode.device & 0xfff00) >> 8,
                                 (inode.device & 0xff) | ((inode.device >> 12) & 0xfff00));
        return st;
    }

    /// What FUSE is told of a name.
    fuse_entry_param entry(const InodeInfo& inode) const {
        fuse_entry_param entry = {};
        entry.ino = node_of(inode.reference);
        entry.attr = describe(inode);
        entry.attr_timeout = entry.entry_timeout = kForever;
        return entry;
    }

    /// A mount point that is shown in a directory, though the image does not have it.
    struct Shown {
        uint64_t parent;  ///< reference
        std::string name;
        bool directory;
        uint64_t reference;
    };
    std::vector<const Shown*> shown_in(const InodeInfo& directory) const {
        std::vector<const Shown*> found;
        for (const Shown& shown : shown_)
            if (shown.parent == directory.reference) found.push_back(&shown);
        return found;
    }
    /// A name's inode; std::nullopt where there is nothing.
    std::optional<InodeInfo> lookup(const InodeInfo& directory, std::string_view name) const {
        if (const auto entry = reader_.lookup(directory, name)) {
            const InodeInfo inode = reader_.inode(entry->reference);
            if ((inode.mode & S_IFMT) != entry->mode)
                throw damaged(reader_.subject(), "a directory names a file of another type");
            return inode;
        }
        for (const Shown* shown : shown_in(directory))
            if (shown->name == name) return shown_inode(node_of(shown->reference));
        return std::nullopt;
    }

    /// Listings are read in pieces: the place where a reply ended is kept for the next request.
    DirectoryCursor cursor_at(const InodeInfo& directory, uint64_t index) {
        {
            const std::lock_guard lock(cursors_mutex_);
            const auto found = cursors_.find({directory.reference, index});
            if (found != cursors_.end()) return found->second;
        }
        DirectoryCursor cursor = reader_.open_directory(directory);
        DirectoryEntry entry;
        for (uint64_t i = 0; i < index && reader_.next_entry(cursor, entry); ++i) continue;
        return cursor;
    }
    void keep_cursor(const InodeInfo& directory, uint64_t index, const DirectoryCursor& cursor) {
        const std::lock_guard lock(cursors_mutex_);
        if (cursors_.size() >= kMostCursors) cursors_.clear();
        cursors_[{directory.reference, index}] = cursor;
    }

    /// Tell the user of damage, a few times: on our standard error, or, since a server in the
    /// background has none, on that of the process that reads. Only a user's own process can be
    /// opened so, and a terminal, file or pipe is opened anew: nothing of it is held.
    void warn(const char* text, pid_t reader) {
        if (warnings_.fetch_add(1) >= kMostWarnings) return;
        log::write(log::Level::warning, text);
        const UniqueFd their_error(::open(fmt::format("/proc/{}/fd/2", reader).c_str(),
                                          O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (!their_error || same_file(their_error.get(), STDERR_FILENO)) return;
        const std::string line = fmt::format("slipway: warning: {}\n", text);
        (void)!::write(their_error.get(), line.data(), line.size());
    }

 private:
    static constexpr fuse_ino_t kFirstShown = 1ull << 62;  // references have 48 bits

    InodeInfo shown_inode(fuse_ino_t node) const {
        const size_t index = node - kFirstShown;
        if (index >= shown_.size()) throw SysError(ENOENT, "there is no such node", "inode");
        InodeInfo inode;
        inode.reference = shown_[index].reference;
        inode.mode = shown_[index].directory ? S_IFDIR | 0755 : S_IFREG | 0644;
        inode.links = shown_[index].directory ? 2 : 1;
        inode.number = static_cast<uint32_t>(reader_.super().inodes + 1 + index);
        inode.parent_number = reader_.inode(shown_[index].parent).number;
        return inode;
    }
    void show_mount_point(const SquashfsServerOptions::MountPoint& point) {
        try {
            const std::string name(base_name(point.path));
            if (name.empty() || name == "." || name == "..") return;
            const auto trail = reader_.resolve(parent_path(point.path));
            if (trail.empty() || !S_ISDIR(trail.back().mode) || lookup(trail.back(), name)) return;
            shown_.push_back(
                {trail.back().reference, name, point.directory, kFirstShown + shown_.size() - 2});
        } catch (const Error&) {  // damage: who looks there is told
        }
    }
    static bool same_file(int first, int second) {
        struct stat a = {}, b = {};
        return ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && a.st_dev == b.st_dev &&
               a.st_ino == b.st_ino;
    }

    const SquashfsServerOptions& options_;
    const ImageReader& reader_;
    std::vector<Shown> shown_;
    std::mutex cursors_mutex_;
    std::map<std::pair<uint64_t, uint64_t>, DirectoryCursor> cursors_;
    std::atomic<int> warnings_{0};
};

}  // namespace slipway::image::squashfs
