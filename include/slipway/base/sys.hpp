// Every system call that Slipway makes, once: each wrapper throws SysError with the call's name and
// its subject. Descriptors returned are close-on-exec. Where a failure is an expected outcome the
// wrapper returns std::optional.
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::sys {

// --- files
// -----------------------------------------------------------------------------------------------------------
UniqueFd open(const std::string& path, int flags, mode_t mode = 0);
UniqueFd openat(int dir, const std::string& path, int flags, mode_t mode = 0);
/// Like openat, but an absent file (ENOENT, ENOTDIR) is std::nullopt.
std::optional<UniqueFd> openat_if_exists(int dir, const std::string& path, int flags,
                                         mode_t mode = 0);
/// openat2(2) with `resolve` flags (RESOLVE_IN_ROOT, RESOLVE_BENEATH, ...).
UniqueFd openat2(int dir, const std::string& path, int flags, uint64_t resolve, mode_t mode = 0);
std::optional<UniqueFd> openat2_if_exists(int dir, const std::string& path, int flags,
                                          uint64_t resolve, mode_t mode = 0);

/// `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH. An absent file is std::nullopt.
std::optional<struct stat> stat_if_exists(int dir, const std::string& path, int flags = 0);
/// What tells the mount at `path` from others (statx's stx_mnt_id); std::nullopt before Linux 5.8.
std::optional<uint64_t> mount_id(const std::string& path);
struct stat fstat(int fd, const std::string& subject);
void mkdirat(int dir, const std::string& path, mode_t mode);
/// Return false if something is there already.
bool mkdirat_if_absent(int dir, const std::string& path, mode_t mode);
/// Make a directory and its missing parents (host paths; not for paths inside a container).
void make_directories(const std::string& path, mode_t mode = 0755);
void unlinkat(int dir, const std::string& path, int flags = 0);
void renameat(int old_dir, const std::string& old_path, int new_dir, const std::string& new_path);
void symlinkat(const std::string& target, int dir, const std::string& path);
void linkat(int old_dir, const std::string& old_path, int new_dir, const std::string& new_path,
            int flags = 0);
void mknodat(int dir, const std::string& path, mode_t mode, dev_t device);
std::string readlinkat(int dir, const std::string& path);
void fchmod(int fd, mode_t mode, const std::string& subject);
void fchmodat(int dir, const std::string& path, mode_t mode);
/// Change the owner of a path, the link itself if it is one.
void fchownat_nofollow(int dir, const std::string& path, uid_t uid, gid_t gid);
void ftruncate(int fd, off_t size, const std::string& subject);
void fsync(int fd, const std::string& subject);
void syncfs(int fd, const std::string& subject);  ///< the whole file system of `fd`
/// Set access and modification time of a path, the link itself if it is one.
void utimensat_nofollow(int dir, const std::string& path, int64_t seconds, long nanoseconds);
/// statfs(2)'s f_type, which tells file systems apart.
uint64_t file_system_type(int fd, const std::string& subject);
/// flock(2) without waiting (LOCK_SH, LOCK_EX); false when somebody else has it, or when this file
/// system has no such locks.
bool try_flock(int fd, int operation);
/// An inotify(7) instance that watches one path for `mask`.
UniqueFd inotify_watch(const std::string& path, uint32_t mask);
/// Names in a directory without "." and "..", sorted bytewise.
std::vector<std::string> list_directory(int dir, const std::string& subject);

size_t read(int fd, void* data, size_t size,
            const std::string& subject);  ///< 0 at the end; retries EINTR
size_t pread(int fd, void* data, size_t size, uint64_t offset, const std::string& subject);
void write_all(int fd, const void* data, size_t size, const std::string& subject);
void pwrite_all(int fd, const void* data, size_t size, uint64_t offset, const std::string& subject);

// --- extended attributes of an open file or of /proc/self/fd paths; absent or unsupported is
// std::nullopt ---------------
std::optional<std::string> getxattr_nofollow(const std::string& path, const std::string& name);
std::vector<std::string> listxattr_nofollow(const std::string& path);
void setxattr_nofollow(const std::string& path, const std::string& name, const std::string& value);
void removexattr_nofollow(const std::string& path, const std::string& name);

// --- namespaces and mounts
// -------------------------------------------------------------------------------------------
void unshare(int flags);
void setns(int fd, int flags, const std::string& subject);
void mount(const std::string& source, const std::string& target, const std::string& type,
           unsigned long flags, const std::string& options = {});
void umount(const std::string& target, int flags);
void pivot_root(const std::string& new_root, const std::string& put_old);
void chdir(const std::string& path);
void fchdir(int fd, const std::string& subject);
void chroot(const std::string& path);
/// open_tree(2): a detached copy of the tree below (dir, path) when OPEN_TREE_CLONE is among the
/// flags.
UniqueFd open_tree(int dir, const std::string& path, unsigned flags);
/// move_mount(2) of an open_tree/fsmount descriptor onto an open target.
void move_mount(int tree, int target, const std::string& subject);
/// A new file system, mounted nowhere yet (fsopen, fsconfig, fsmount); `options` are pairs of
/// strings, `attributes` MOUNT_ATTR_ bits.
UniqueFd make_mount(const std::string& type,
                    const std::vector<std::pair<std::string, std::string>>& options,
                    unsigned attributes);
/// mount_setattr(2) over a whole tree; `set` and `clear` are MOUNT_ATTR_ bits.
void mount_setattr_recursive(int tree, uint64_t set, uint64_t clear, const std::string& subject);
void set_no_new_privs();
void sethostname(const std::string& name);

// --- processes and sockets
// -------------------------------------------------------------------------------------------
UniqueFd pidfd_open(pid_t pid);
void pidfd_send_signal(int pidfd, int signal);
UniqueFd memfd_create(const std::string& name);
/// Two ends of a pipe, {read, write}.
std::pair<UniqueFd, UniqueFd> pipe();
std::pair<UniqueFd, UniqueFd> socketpair(int type);
void set_cloexec(int fd, bool on);
/// Put /dev/null, close-on-exec, where standard input, output or error are closed: no descriptor of
/// ours gets such a number, and a program that we become finds them closed, as our caller left
/// them.
void hold_standard_descriptors();
/// Send bytes and descriptors over a socket (SCM_RIGHTS).
void send_message(int socket, std::span<const std::byte> data, std::span<const int> fds);
/// Receive into `data`; returns the byte count (0 at the end) and appends received descriptors.
size_t receive_message(int socket, std::span<std::byte> data, std::vector<UniqueFd>& fds);
/// A datagram socket of the abstract name space of unix(7).
UniqueFd datagram_socket();
/// Bind to an abstract name; false when somebody has it (EADDRINUSE).
bool bind_abstract(int socket, const std::string& name);
/// Send bytes and descriptors to an abstract name. Returns 0 or the errno: most are expected here.
int send_to_abstract(int socket, const std::string& name, std::span<const std::byte> data,
                     std::span<const int> fds);
/// Have the kernel attach the sender's credentials to what is received (SO_PASSCRED).
void pass_credentials(int socket);
/// What one receive gave, with the sender's user where the socket passes credentials.
struct Received {
    size_t size = 0;
    std::vector<UniqueFd> fds;
    std::optional<uid_t> uid;
};
/// Receive without waiting; std::nullopt when nothing is there. A reset connection has size 0.
std::optional<Received> receive_now(int socket, std::span<std::byte> data);
void set_parent_death_signal(int signal);
void set_child_subreaper();

}  // namespace slipway::sys
