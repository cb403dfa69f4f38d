// Finds out which setting of the host forbids a namespace, and says how to change it.
// Must not: try anything; it explains what failed.
#include "namespace_settings.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "namespaces.hpp"
#include "slipway/base/file.hpp"

namespace slipway::runtime {

namespace {

std::optional<std::string> read_if_readable(const std::string& path) {
    try {
        return read_file(path);
    } catch (const Error&) {
        return std::nullopt;
    }
}

long number_in(const std::string& path, long fallback) {
    const auto text = read_if_readable(path);
    return text ? std::strtol(text->c_str(), nullptr, 10) : fallback;
}

/// The value of a line "Name:\tvalue" of /proc/self/status.
long status_value(const std::string& status, const std::string& name, long fallback) {
    const size_t at = status.find("\n" + name + ":");
    return at == std::string::npos
               ? fallback
               : std::strtol(status.c_str() + at + name.size() + 2, nullptr, 10);
}

/// In a chroot to a plain directory no mount is seen on "/"; one to a mount point cannot be told.
bool is_chrooted(const std::string& mountinfo) {
    std::istringstream lines(mountinfo);
    std::string line;
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string id, parent, device, root, place;
        words >> id >> parent >> device >> root >> place;
        if (place == "/") return false;
    }
    return true;
}

}  // namespace

NamespaceSettings read_namespace_settings() {
    NamespaceSettings settings;
    const std::string base = "/proc/sys/";
    settings.max_user_namespaces = number_in(base + "user/max_user_namespaces", -1);
    settings.max_mnt_namespaces = number_in(base + "user/max_mnt_namespaces", -1);
    settings.unprivileged_userns_clone = number_in(base + "kernel/unprivileged_userns_clone", 1);
    settings.apparmor_restricts =
        number_in(base + "kernel/apparmor_restrict_unprivileged_userns", 0);
    settings.selinux_enforces = number_in("/sys/fs/selinux/enforce", 0) == 1;
    const auto status = read_if_readable("/proc/self/status");
    settings.proc_readable = status.has_value();
    if (status && status_value(*status, "Seccomp", 0) == 2)
        settings.seccomp_filters = static_cast<int>(status_value(*status, "Seccomp_filters", -1));
    const auto mountinfo = read_if_readable("/proc/self/mountinfo");
    settings.chrooted = mountinfo && is_chrooted(*mountinfo);
    return settings;
}

Error explain_refusal(int errno_value, const std::string& call, const NamespaceSettings& settings) {
    const std::string action =
        call == "mount" ? "cannot mount in a user namespace" : "cannot make a user namespace";
    Error error(ErrorKind::host_forbids, SysError(errno_value, action, call).message());
    const bool denied = errno_value == EPERM || errno_value == EACCES;
    if (settings.max_user_namespaces == 0)
        return error.note("the setting user.max_user_namespaces is 0")
            .hint("ask the administrator for: sysctl user.max_user_namespaces=65536");
    if (denied && settings.unprivileged_userns_clone == 0)
        return error.note("the setting kernel.unprivileged_userns_clone is 0")
            .hint("ask the administrator for: sysctl kernel.unprivileged_userns_clone=1");
    if (errno_value == ENOSPC || errno_value == EUSERS)
        return error
            .note(fmt::format("user.max_user_namespaces is {}, user.max_mnt_namespaces {}, and "
                              "namespaces nest 32 deep at most",
                              settings.max_user_namespaces, settings.max_mnt_namespaces))
            .hint(
                "end containers that are no longer needed, or ask the administrator for: sysctl "
                "user.max_user_namespaces=65536 user.max_mnt_namespaces=65536");
    if (denied && settings.apparmor_restricts == 1)
        return error
            .note(
                "AppArmor restricts user namespaces to programs with a profile (the setting "
                "kernel.apparmor_restrict_unprivileged_userns is 1)")
            .hint(
                "ask the administrator to copy Slipway's share/slipway/apparmor/slipway to "
                "/etc/apparmor.d/ and to run: apparmor_parser -r /etc/apparmor.d/slipway");
    if (denied && settings.chrooted)
        return error.note("this process is in a chroot: the kernel allows no user namespace there")
            .hint(
                "run it outside of the chroot, or enter that root with pivot_root (bwrap, slipway "
                "run)");
    if (denied && settings.seccomp_filters != 0)
        return error
            .note(
                "a seccomp filter is on this process (Seccomp: 2 in /proc/self/status), such as "
                "a container engine's or a sandbox's")
            .hint(
                "run it outside of that container, or start the container with a seccomp profile "
                "that allows unshare and mount (docker, podman: --security-opt "
                "seccomp=unconfined)");
    if (denied && settings.selinux_enforces)
        return error.note("SELinux is enforcing, and its policy may deny user_namespace { create }")
            .hint(
                "ask the administrator for: ausearch -m AVC -c slipway, and for a policy module "
                "that allows it");
    if (errno_value == EINVAL)
        return error.note("this kernel was built without user namespaces (CONFIG_USER_NS)")
            .hint("ask the administrator for another kernel");
    if (denied && !settings.proc_readable)
        return error.note("the reason cannot be told without /proc")
            .hint("mount /proc here, or run it outside of this chroot or container");
    if (denied)
        error.note("a chroot or a security module around this process gives this error, too")
            .hint("try outside of it, or ask the administrator to allow unshare and mount there");
    return error;
}

Error namespace_refusal(int errno_value, const std::string& call) {
    return explain_refusal(errno_value, call, read_namespace_settings());
}

}  // namespace slipway::runtime
