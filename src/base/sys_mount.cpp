// System calls on namespaces, mounts and roots, each once, with its name and its subject in the
// error. Must not: decide anything, or follow a policy.
#include <fmt/format.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "slipway/base/error.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::sys {
namespace {

std::string cannot(std::string_view verb, std::string_view subject) {
    return fmt::format("cannot {} {}", verb, quoted(subject));
}

}  // namespace

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

}  // namespace slipway::sys
