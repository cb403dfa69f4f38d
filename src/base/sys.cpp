// Every system call, once, with its name and its subject in the error.
// Must not: decide anything; retry close(); follow a policy.
#include "slipway/base/sys.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
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
#include "slipway/base/full_program.hpp"

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

void unshare(int flags) {
    forbid_full_program();
    if (::unshare(flags) != 0) throw SysError("cannot make namespaces", "unshare");
}

void setns(int fd, int flags, const std::string& subject) {
    forbid_full_program();
    if (::setns(fd, flags) != 0) throw SysError(cannot("enter the namespace of", subject), "setns");
}

void mount(const std::string& source, const std::string& target, const std::string& type,
           unsigned long flags, const std::string& options) {
    if (::mount(source.empty() ? nullptr : source.c_str(), target.c_str(),
                type.empty() ? nullptr : type.c_str(), flags,
                options.empty() ? nullptr : options.c_str()) != 0) {
        const int value = errno;
        const std::string what = type.empty() ? source : type;
        throw SysError(value, fmt::format("cannot mount {} on {}", quoted(what), quoted(target)),
                       "mount");
    }
}

void umount(const std::string& target, int flags) {
    if (::umount2(target.c_str(), flags) != 0) throw SysError(cannot("unmount", target), "umount2");
}

void pivot_root(const std::string& new_root, const std::string& put_old) {
    if (::syscall(SYS_pivot_root, new_root.c_str(), put_old.c_str()) != 0)
        throw SysError(cannot("make the root directory of", new_root), "pivot_root");
}

void chdir(const std::string& path) {
    if (::chdir(path.c_str()) != 0) throw SysError(cannot("change to directory", path), "chdir");
}

void fchdir(int fd, const std::string& subject) {
    if (::fchdir(fd) != 0) throw SysError(cannot("change to directory", subject), "fchdir");
}

void chroot(const std::string& path) {
    if (::chroot(path.c_str()) != 0)
        throw SysError(cannot("change the root directory to", path), "chroot");
}

UniqueFd open_tree(int dir, const std::string& path, unsigned flags) {
    const long fd = ::syscall(SYS_open_tree, dir, path.c_str(), flags | O_CLOEXEC);
    if (fd < 0) throw SysError(cannot("take the mounts of", path), "open_tree");
    return UniqueFd(static_cast<int>(fd));
}

void move_mount(int tree, int target, const std::string& subject) {
    if (::syscall(SYS_move_mount, tree, "", target, "",
                  MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        throw SysError(cannot("mount on", subject), "move_mount");
}

UniqueFd make_mount(const std::string& type,
                    const std::vector<std::pair<std::string, std::string>>& options,
                    unsigned attributes) {
    const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, type.c_str(), FSOPEN_CLOEXEC)));
    if (!context) throw SysError(fmt::format("cannot make a {} file system", type), "fsopen");
    for (const auto& [key, value] : options)
        if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, key.c_str(), value.c_str(),
                      0) != 0)
            throw SysError(fmt::format("cannot set {}={} of a {} file system", key, value, type),
                           "fsconfig");
    if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        throw SysError(fmt::format("cannot make a {} file system", type), "fsconfig");
    const long fd = ::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, attributes);
    if (fd < 0) throw SysError(fmt::format("cannot mount a {} file system", type), "fsmount");
    return UniqueFd(static_cast<int>(fd));
}

void mount_setattr_recursive(int tree, uint64_t set, uint64_t clear, const std::string& subject) {
    mount_attr attributes{};
    attributes.attr_set = set;
    attributes.attr_clr = clear;
    if (::syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                  sizeof attributes) != 0)
        throw SysError(cannot("set mount attributes of", subject), "mount_setattr");
}

void set_no_new_privs() {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        throw SysError("cannot give up new privileges", "prctl");
}

void sethostname(const std::string& name) {
    if (::sethostname(name.c_str(), name.size()) != 0)
        throw SysError("cannot set the host name", "sethostname");
}

UniqueFd pidfd_open(pid_t pid) {
    const long fd = ::syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) throw SysError(fmt::format("cannot open process {}", pid), "pidfd_open");
    return UniqueFd(static_cast<int>(fd));
}

void pidfd_send_signal(int pidfd, int signal) {
    if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0 && errno != ESRCH)
        throw SysError(fmt::format("cannot send signal {}", signal), "pidfd_send_signal");
}

UniqueFd memfd_create(const std::string& name) {
    const int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
    if (fd < 0) throw SysError("cannot make an anonymous file", "memfd_create");
    return UniqueFd(fd);
}

std::pair<UniqueFd, UniqueFd> pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("cannot make a pipe", "pipe2");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::pair<UniqueFd, UniqueFd> socketpair(int type) {
    int ends[2];
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
        throw SysError("cannot make a socket pair", "socketpair");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_cloexec(int fd, bool on) {
    if (::fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) != 0)
        throw SysError("cannot set close-on-exec", "fcntl");
}

void hold_standard_descriptors() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!::open("/dev/null", O_RDWR | O_CLOEXEC);  // takes the lowest number, this one
}

namespace {

constexpr size_t kMaxDescriptors = 16;

void attach_descriptors(msghdr& message, char* control, std::span<const int> fds) {
    if (fds.size() > kMaxDescriptors)
        throw Error(ErrorKind::internal, "too many descriptors in one message");
    if (fds.empty()) return;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

void take_control(msghdr& message, std::vector<UniqueFd>& fds, std::optional<uid_t>* uid) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET) continue;
        if (header->cmsg_type == SCM_CREDENTIALS && uid != nullptr) {
            ucred sender{};
            std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
            *uid = sender.uid;
        }
        if (header->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            fds.emplace_back(fd);
        }
    }
}

}  // namespace

void send_message(int socket, std::span<const std::byte> data, std::span<const int> fds) {
    iovec part{const_cast<std::byte*>(data.data()), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    attach_descriptors(message, control, fds);
    while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) throw SysError("cannot send a message", "sendmsg");
}

size_t receive_message(int socket, std::span<std::byte> data, std::vector<UniqueFd>& fds) {
    iovec part{data.data(), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n = 0;
    while ((n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0)
        if (errno != EINTR) throw SysError("cannot receive a message", "recvmsg");
    take_control(message, fds, nullptr);
    return static_cast<size_t>(n);
}

UniqueFd datagram_socket() {
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) throw SysError("cannot make a socket", "socket");
    return UniqueFd(fd);
}

namespace {

/// The address of an abstract name: a NUL byte, the name, no terminator. Source: unix(7).
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof address.sun_path)
        throw Error(ErrorKind::internal, "the socket name is too long");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

bool bind_abstract(int socket, const std::string& name) {
    sockaddr_un address;
    const socklen_t size = abstract_address(name, address);
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
    if (errno == EADDRINUSE) return false;
    throw SysError(fmt::format("cannot bind the socket {}", quoted(name)), "bind");
}

int send_to_abstract(int socket, const std::string& name, std::span<const std::byte> data,
                     std::span<const int> fds) {
    sockaddr_un address;
    const socklen_t size = abstract_address(name, address);
    iovec part{const_cast<std::byte*>(data.data()), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = size;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    attach_descriptors(message, control, fds);
    while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

void pass_credentials(int socket) {
    const int on = 1;
    if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
        throw SysError("cannot ask for credentials", "setsockopt");
}

std::optional<Received> receive_now(int socket, std::span<std::byte> data) {
    iovec part{data.data(), data.size()};
    alignas(cmsghdr) char
        control[CMSG_SPACE(kMaxDescriptors * sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n = 0;
    while ((n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0) {
        if (errno == EAGAIN) return std::nullopt;
        if (errno == ECONNRESET) return Received{};
        if (errno != EINTR) throw SysError("cannot receive a message", "recvmsg");
    }
    Received received;
    received.size = static_cast<size_t>(n);
    take_control(message, received.fds, &received.uid);
    return received;
}

void set_parent_death_signal(int signal) {
    if (::prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0)
        throw SysError("cannot ask for a signal", "prctl");
}

void set_child_subreaper() {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        throw SysError("cannot adopt orphans", "prctl");
}

}  // namespace slipway::sys
