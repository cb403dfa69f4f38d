// Creates user namespaces with single-id maps and explains refusals by probing the usual knobs.
// Must not: mount anything beyond the change of propagation, or decide what a container looks like.
#include "namespaces.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdlib>

#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

/// The number in a /proc/sys file, or `fallback` where this kernel has no such setting.
long read_setting(const std::string& name, long fallback) {
    try {
        return std::strtol(read_file("/proc/sys/" + name).c_str(), nullptr, 10);
    } catch (const Error&) {
        return fallback;
    }
}

void write_map(const char* path, const std::string& text) {
    const UniqueFd fd = sys::open(path, O_WRONLY);
    sys::write_all(fd.get(), text.data(), text.size(), path);
}

constexpr NamespaceKind kKinds[] = {
    {"user", CLONE_NEWUSER, "user"}, {"mount", CLONE_NEWNS, "mnt"},
    {"uts", CLONE_NEWUTS, "uts"},    {"ipc", CLONE_NEWIPC, "ipc"},
    {"net", CLONE_NEWNET, "net"},    {"cgroup", CLONE_NEWCGROUP, "cgroup"},
};

}  // namespace

const NamespaceKind& namespace_kind(const std::string& name) {
    for (const auto& kind : kKinds)
        if (name == kind.name) return kind;
    throw Error(ErrorKind::internal, fmt::format("there is no {} namespace", name));
}

Error namespace_refusal(int errno_value, const std::string& call) {
    SysError cause(errno_value, "cannot make a user namespace", call);
    Error error(ErrorKind::host_forbids, cause.message());
    if (read_setting("user/max_user_namespaces", 1) == 0)
        return error.note("the setting user.max_user_namespaces is 0")
            .hint("ask the administrator for: sysctl user.max_user_namespaces=65536");
    if (read_setting("kernel/unprivileged_userns_clone", 1) == 0)
        return error.note("the setting kernel.unprivileged_userns_clone is 0")
            .hint("ask the administrator for: sysctl kernel.unprivileged_userns_clone=1");
    if (read_setting("kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        return error
            .note(
                "AppArmor restricts user namespaces to programs with a profile (Ubuntu 23.10 "
                "and later)")
            .hint(
                "ask the administrator to install Slipway's AppArmor profile, or for: sysctl "
                "kernel.apparmor_restrict_unprivileged_userns=0");
    if (errno_value == ENOSPC || errno_value == EUSERS)
        return error
            .note(fmt::format("user.max_user_namespaces is {}, and namespaces nest 32 deep at most",
                              read_setting("user/max_user_namespaces", -1)))
            .hint(
                "end containers that are no longer needed, or ask the administrator to raise "
                "user.max_user_namespaces");
    if (errno_value == EPERM)
        return error.note("a seccomp filter or a chroot around this process also gives this error")
            .hint(
                "try outside of the container or chroot, or ask the administrator to allow "
                "unshare there");
    return error;
}

void enter_user_namespace(int more_flags, const Identity& identity) {
    if (::unshare(CLONE_NEWUSER | more_flags) != 0) throw namespace_refusal(errno, "unshare");
    try {
        write_map("/proc/self/setgroups", "deny");
        write_map("/proc/self/gid_map",
                  fmt::format("{} {} 1", identity.gid_inside, identity.gid_outside));
        write_map("/proc/self/uid_map",
                  fmt::format("{} {} 1", identity.uid_inside, identity.uid_outside));
    } catch (const Error& error) {
        throw namespace_refusal(error.errno_value(), "writing uid_map");
    }
}

void isolate_mounts() {
    if (::mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        throw namespace_refusal(errno, "mount");
}

}  // namespace slipway::runtime
