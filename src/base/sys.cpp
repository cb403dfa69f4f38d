// System calls on files, directories and attributes, each once, with its name and its subject in
// the error; the others: sys_mount.cpp, sys_socket.cpp, sys_process.cpp, sys_node.cpp.
// Must not: decide anything; retry close(); follow a policy.
#include "slipway/base/sys.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

#include "slipway/base/error.hpp"
#include "slipway/base/fault.hpp"

namespace slipway::sys {
namespace {

/// Where a test may kill us: see fault.hpp.
[[maybe_unused]] constexpr const char* kChange = "change";

bool absent(int value) { return value == ENOENT || value == ENOTDIR; }

std::string cannot(std::string_view verb, std::string_view subject) {
    return fmt::format("cannot {} {}", verb, quoted(subject));
}

int raw_openat2(int dir, const std::string& path, int flags, uint64_t resolve, mode_t mode) {
    open_how how{};
    how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
    how.mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? mode : 0;
    how.resolve = resolve;
    while (true) {
        const long fd = ::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how);
        // EAGAIN: a rename beside us made the kernel give up on RESOLVE_IN_ROOT; openat2(2) says to
        // try again.
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) return static_cast<int>(fd);
    }
}

}  // namespace

UniqueFd open(const std::string& path, int flags, mode_t mode) {
    return openat(AT_FDCWD, path, flags, mode);
}

UniqueFd openat(int dir, const std::string& path, int flags, mode_t mode) {
    const int fd = ::openat(dir, path.c_str(), flags | O_CLOEXEC, mode);
    if (fd < 0) throw SysError(cannot("open", path), "openat");
    if ((flags & O_CREAT) != 0) fault::point(kChange);
    return UniqueFd(fd);
}

std::optional<UniqueFd> openat_if_exists(int dir, const std::string& path, int flags, mode_t mode) {
    const int fd = ::openat(dir, path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) return UniqueFd(fd);
    if (absent(errno)) return std::nullopt;
    throw SysError(cannot("open", path), "openat");
}

UniqueFd openat2(int dir, const std::string& path, int flags, uint64_t resolve, mode_t mode) {
    const int fd = raw_openat2(dir, path, flags, resolve, mode);
    if (fd < 0) throw SysError(cannot("open", path), "openat2");
    return UniqueFd(fd);
}

std::optional<UniqueFd> openat2_if_exists(int dir, const std::string& path, int flags,
                                          uint64_t resolve, mode_t mode) {
    const int fd = raw_openat2(dir, path, flags, resolve, mode);
    if (fd >= 0) return UniqueFd(fd);
    if (absent(errno)) return std::nullopt;
    throw SysError(cannot("open", path), "openat2");
}

std::optional<struct stat> stat_if_exists(int dir, const std::string& path, int flags) {
    struct stat status {};
    if (::fstatat(dir, path.c_str(), &status, flags) == 0) return status;
    if (absent(errno)) return std::nullopt;
    throw SysError(cannot("stat", path), "fstatat");
}

std::optional<uint64_t> mount_id(const std::string& path) {
    struct statx status {};
    if (::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) != 0)
        throw SysError(cannot("read the attributes of", path), "statx");
    if ((status.stx_mask & STATX_MNT_ID) == 0) return std::nullopt;
    return status.stx_mnt_id;
}

struct stat fstat(int fd, const std::string& subject) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw SysError(cannot("stat", subject), "fstat");
    return status;
}

void mkdirat(int dir, const std::string& path, mode_t mode) {
    if (::mkdirat(dir, path.c_str(), mode) != 0)
        throw SysError(cannot("make directory", path), "mkdirat");
    fault::point(kChange);
}

bool mkdirat_if_absent(int dir, const std::string& path, mode_t mode) {
    if (::mkdirat(dir, path.c_str(), mode) == 0) return true;
    if (errno == EEXIST) return false;
    throw SysError(cannot("make directory", path), "mkdirat");
}

void make_directories(const std::string& path, mode_t mode) {
    if (path.empty() || path == "/") return;
    if (::mkdir(path.c_str(), mode) == 0) return fault::point(kChange);
    if (errno == EEXIST) return;
    if (errno != ENOENT) throw SysError(cannot("make directory", path), "mkdir");
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos || slash == 0)
        throw SysError(ENOENT, cannot("make directory", path), "mkdir");
    make_directories(path.substr(0, slash), mode);
    if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
        throw SysError(cannot("make directory", path), "mkdir");
}

void unlinkat(int dir, const std::string& path, int flags) {
    if (::unlinkat(dir, path.c_str(), flags) != 0)
        throw SysError(cannot("remove", path), "unlinkat");
    fault::point(kChange);
}

void renameat(int old_dir, const std::string& old_path, int new_dir, const std::string& new_path) {
    if (::renameat(old_dir, old_path.c_str(), new_dir, new_path.c_str()) != 0)
        throw SysError(fmt::format("cannot rename {} to {}", quoted(old_path), quoted(new_path)),
                       "renameat");
    fault::point(kChange);
}

void symlinkat(const std::string& target, int dir, const std::string& path) {
    if (::symlinkat(target.c_str(), dir, path.c_str()) != 0)
        throw SysError(cannot("make link", path), "symlinkat");
    fault::point(kChange);
}

void linkat(int old_dir, const std::string& old_path, int new_dir, const std::string& new_path,
            int flags) {
    if (::linkat(old_dir, old_path.c_str(), new_dir, new_path.c_str(), flags) != 0)
        throw SysError(fmt::format("cannot link {} to {}", quoted(new_path), quoted(old_path)),
                       "linkat");
    fault::point(kChange);
}

void mknodat(int dir, const std::string& path, mode_t mode, dev_t device) {
    if (::mknodat(dir, path.c_str(), mode, device) != 0)
        throw SysError(cannot("make node", path), "mknodat");
}

std::string readlinkat(int dir, const std::string& path) {
    std::string target(256, '\0');
    while (true) {
        const ssize_t n = ::readlinkat(dir, path.c_str(), target.data(), target.size());
        if (n < 0) throw SysError(cannot("read link", path), "readlinkat");
        if (static_cast<size_t>(n) < target.size()) {
            target.resize(static_cast<size_t>(n));
            return target;
        }
        target.resize(target.size() * 4);
    }
}

void fchmod(int fd, mode_t mode, const std::string& subject) {
    if (::fchmod(fd, mode) != 0) throw SysError(cannot("set the mode of", subject), "fchmod");
    fault::point(kChange);
}

void fchmodat(int dir, const std::string& path, mode_t mode) {
    if (::fchmodat(dir, path.c_str(), mode, 0) != 0)
        throw SysError(cannot("set the mode of", path), "fchmodat");
}

void fchownat_nofollow(int dir, const std::string& path, uid_t uid, gid_t gid) {
    if (::fchownat(dir, path.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) != 0)
        throw SysError(cannot("change the owner of", path), "fchownat");
}

void ftruncate(int fd, off_t size, const std::string& subject) {
    if (::ftruncate(fd, size) != 0) throw SysError(cannot("set the size of", subject), "ftruncate");
    fault::point(kChange);
}

void fsync(int fd, const std::string& subject) {
    if (::fsync(fd) != 0) throw SysError(cannot("write", subject), "fsync");
    fault::point(kChange);
}

void syncfs(int fd, const std::string& subject) {
    if (::syncfs(fd) != 0) throw SysError(cannot("write", subject), "syncfs");
}

void utimensat_nofollow(int dir, const std::string& path, int64_t seconds, long nanoseconds) {
    const timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    if (::utimensat(dir, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
        throw SysError(cannot("set the times of", path), "utimensat");
}

uint64_t file_system_type(int fd, const std::string& subject) {
    struct statfs facts {};
    if (::fstatfs(fd, &facts) != 0) throw SysError(cannot("examine", subject), "fstatfs");
    return static_cast<uint32_t>(facts.f_type);
}

bool try_flock(int fd, int operation) {
    while (::flock(fd, operation | LOCK_NB) != 0)
        if (errno != EINTR) return false;
    return true;
}

UniqueFd inotify_watch(const std::string& path, uint32_t mask) {
    UniqueFd watch(::inotify_init1(IN_CLOEXEC));
    if (!watch) throw SysError(cannot("watch", path), "inotify_init1");
    if (::inotify_add_watch(watch.get(), path.c_str(), mask) < 0)
        throw SysError(cannot("watch", path), "inotify_add_watch");
    return watch;
}

std::vector<std::string> list_directory(int dir, const std::string& subject) {
    // A descriptor of our own: readdir moves the file position, and fdopendir takes its descriptor.
    UniqueFd own = openat(dir, ".", O_RDONLY | O_DIRECTORY);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own.get()), ::closedir);
    if (!stream) throw SysError(cannot("list", subject), "fdopendir");
    own.release();
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
        errno = 0;
    }
    if (errno != 0) throw SysError(cannot("list", subject), "readdir");
    std::sort(names.begin(), names.end());
    return names;
}

size_t read(int fd, void* data, size_t size, const std::string& subject) {
    while (true) {
        const ssize_t n = ::read(fd, data, size);
        if (n >= 0) return static_cast<size_t>(n);
        if (errno != EINTR) throw SysError(cannot("read", subject), "read");
    }
}

size_t pread(int fd, void* data, size_t size, uint64_t offset, const std::string& subject) {
    while (true) {
        const ssize_t n = ::pread(fd, data, size, static_cast<off_t>(offset));
        if (n >= 0) return static_cast<size_t>(n);
        if (errno != EINTR) throw SysError(cannot("read", subject), "pread");
    }
}

void write_all(int fd, const void* data, size_t size, const std::string& subject) {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t n = ::write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw SysError(cannot("write", subject), "write");
        bytes += n;
        size -= static_cast<size_t>(n);
    }
}

void pwrite_all(int fd, const void* data, size_t size, uint64_t offset,
                const std::string& subject) {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t n = ::pwrite(fd, bytes, size, static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw SysError(cannot("write", subject), "pwrite");
        bytes += n;
        offset += static_cast<uint64_t>(n);
        size -= static_cast<size_t>(n);
    }
}

std::optional<std::string> getxattr_nofollow(const std::string& path, const std::string& name) {
    std::string value(256, '\0');
    while (true) {
        const ssize_t n = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
        if (n >= 0) {
            value.resize(static_cast<size_t>(n));
            return value;
        }
        if (errno != ERANGE) {
            if (errno == ENODATA || errno == EOPNOTSUPP || errno == EPERM || errno == EACCES ||
                absent(errno))
                return std::nullopt;
            throw SysError(cannot("read an attribute of", path), "lgetxattr");
        }
        value.resize(value.size() * 8);
    }
}

std::vector<std::string> listxattr_nofollow(const std::string& path) {
    std::string list(1024, '\0');
    ssize_t n = 0;
    while ((n = ::llistxattr(path.c_str(), list.data(), list.size())) < 0) {
        if (errno == EOPNOTSUPP || errno == EPERM || errno == EACCES) return {};
        if (errno != ERANGE) throw SysError(cannot("list the attributes of", path), "llistxattr");
        list.resize(list.size() * 8);
    }
    std::vector<std::string> names;
    for (size_t at = 0; at < static_cast<size_t>(n);) {
        names.emplace_back(list.c_str() + at);
        at += names.back().size() + 1;
    }
    std::sort(names.begin(), names.end());
    return names;
}

void setxattr_nofollow(const std::string& path, const std::string& name, const std::string& value) {
    if (::lsetxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0) != 0)
        throw SysError(fmt::format("cannot set the attribute {} of {}", name, quoted(path)),
                       "lsetxattr");
}

void removexattr_nofollow(const std::string& path, const std::string& name) {
    if (::lremovexattr(path.c_str(), name.c_str()) != 0)
        throw SysError(fmt::format("cannot remove the attribute {} of {}", name, quoted(path)),
                       "lremovexattr");
}

}  // namespace slipway::sys
