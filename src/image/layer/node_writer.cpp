// Makes one entry of a layer in a directory that is open.
// Must not: look up a path, or decide what an entry replaces.
#include "node_writer.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

void set_xattrs(const Entry& entry, int parent, const std::string& name) {
    for (const auto& [key, value] : entry.xattrs) {
        if (key.starts_with("user.overlay.")) continue;  // not a layer's to set
        try {
            sys::setxattr_nofollow(fmt::format("/proc/self/fd/{}/{}", parent, name), key, value);
        } catch (const SysError& error) {
            int reason = error.errno_value();
            if (reason != EPERM && reason != EOPNOTSUPP && reason != EINVAL) throw;
        }
    }
}

}  // namespace

NodeWriter::NodeWriter(EntrySource& source, UnpackReport& report)
    : source_(source), report_(report), privileged_(::geteuid() == 0), buffer_(256 << 10) {}

void NodeWriter::describe(const Entry& entry, int parent, const std::string& name) {
    set_xattrs(entry, parent, name);
    set_owner(entry, parent, name);
}

bool NodeWriter::make(const Entry& entry, int parent, const std::string& name) {
    switch (entry.type) {
        case EntryType::file:
            write_file(entry, parent, name);
            break;
        case EntryType::directory:
            if (!sys::mkdirat_if_absent(parent, name, 0700)) {
                sys::fchmodat(parent, name, 0700);
            }
            break;
        case EntryType::symlink:
            sys::symlinkat(entry.link_target, parent, name);
            break;
        case EntryType::fifo:
            sys::mknodat(parent, name, S_IFIFO | 0600, 0);
            break;
        case EntryType::char_device:
        case EntryType::block_device:
            if (!make_device(entry, parent, name)) return false;
            break;
        case EntryType::socket:
        case EntryType::hardlink:
            return false;
    }
    set_owner(entry, parent, name);
    if (entry.type != EntryType::symlink && entry.type != EntryType::directory) {
        sys::fchmodat(parent, name, entry.mode);
    }
    set_xattrs(entry, parent, name);
    if (entry.type != EntryType::directory) {
        sys::utimensat_nofollow(parent, name, entry.mtime, 0);
    }
    return true;
}

void NodeWriter::write_file(const Entry& entry, int parent, const std::string& name) {
    UniqueFd file = sys::openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    uint64_t offset = 0;
    bool hole_at_end = false;
    while (size_t got = fill()) {
        hole_at_end = is_zero(got);
        if (!hole_at_end) {
            sys::pwrite_all(file.get(), buffer_.data(), got, offset, entry.path);
        }
        offset += got;
    }
    if (hole_at_end) sys::ftruncate(file.get(), static_cast<off_t>(offset), entry.path);
}

size_t NodeWriter::fill() {
    size_t have = 0;
    while (have < buffer_.size()) {
        size_t got = source_.read(buffer_.data() + have, buffer_.size() - have);
        if (got == 0) break;
        have += got;
    }
    return have;
}

// Long runs of zeros become holes.
bool NodeWriter::is_zero(size_t size) const {
    return size >= 4096 && buffer_[0] == 0 &&
           std::equal(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(size) - 1,
                      buffer_.begin() + 1);
}

bool NodeWriter::make_device(const Entry& entry, int parent, const std::string& name) {
    bool character = entry.type == EntryType::char_device;
    // 0/0 is what overlayfs and we use as a whiteout: no layer brings one as a file.
    bool allowed = privileged_ && (entry.device_major != 0 || entry.device_minor != 0);
    try {
        if (allowed) {
            sys::mknodat(parent, name, (character ? S_IFCHR : S_IFBLK) | 0600,
                         makedev(entry.device_major, entry.device_minor));
        }
    } catch (const SysError& error) {
        if (error.errno_value() != EPERM) throw;
        allowed = false;
    }
    if (!allowed) ++report_.devices_not_made;
    return allowed;
}

void NodeWriter::set_owner(const Entry& entry, int parent, const std::string& name) {
    if (privileged_) {
        try {
            sys::fchownat_nofollow(parent, name, entry.uid, entry.gid);
            return;
        } catch (const SysError& error) {
            // Root of a user namespace that does not map this owner.
            if (error.errno_value() != EPERM && error.errno_value() != EINVAL) throw;
        }
    }
    // An image's root is whoever unpacks it; any other owner is lost.
    if (entry.uid != 0 || entry.gid != 0) ++report_.owners_not_kept;
}

}  // namespace slipway::image
