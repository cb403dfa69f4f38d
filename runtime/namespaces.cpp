// Creates user namespaces with single-id maps.
// Must not: mount anything beyond the change of propagation, or decide what a container looks like.
#include "namespaces.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>

#include "slipway/base/full_program.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

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

void enter_user_namespace(int more_flags, const Identity& identity) {
    forbid_full_program();
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
