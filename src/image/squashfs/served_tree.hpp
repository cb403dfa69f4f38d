// A squashfs tree as FUSE sees it: node ids, attributes, places in listings.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 35
#endif

#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <map>
#include <mutex>

#include "reader.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image::squashfs {

inline constexpr double kForever = 86400.0 * 3650;  // seconds: the tree never changes
inline constexpr size_t kCacheBytes = 48u << 20;
inline constexpr size_t kMostCursors = 256;
inline constexpr int kMostWarnings = 3;

/// Node ids: FUSE wants 1 for the root; every other is its inode reference, moved by 2.
class Server {
 public:
    explicit Server(const SquashfsServerOptions& options)
        : options_(options),
          reader_({options.image_fd, options.image_offset_bytes}, options.subject, kCacheBytes) {
        if (!S_ISDIR(reader_.root().mode))
            throw damaged(options.subject, "its root is no directory");
    }

    const ImageReader& reader() const { return reader_; }

    InodeInfo inode(fuse_ino_t node) const {
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

    /// Tell the user of damage, a few times.
    void warn(const char* text) {
        if (warnings_.fetch_add(1) < kMostWarnings) log::write(log::Level::warning, text);
    }

 private:
    const SquashfsServerOptions& options_;
    ImageReader reader_;
    std::mutex cursors_mutex_;
    std::map<std::pair<uint64_t, uint64_t>, DirectoryCursor> cursors_;
    std::atomic<int> warnings_{0};
};

}  // namespace slipway::image::squashfs
