// Entering user namespaces without privilege, and saying why when the host does not let us.
#pragma once

#include <cstdint>
#include <string>

#include "slipway/base/error.hpp"

namespace slipway::runtime {

/// One user and one group, as the namespace's members see them and as the host sees them.
struct Identity {
    uint32_t uid_inside = 0, gid_inside = 0;
    uint32_t uid_outside = 0, gid_outside = 0;
};

/// A kind of namespace: its name in a plan, its CLONE_NEW... flag, its file below /proc/PID/ns.
struct NamespaceKind {
    const char* name;
    int flag;
    const char* file;
};
/// Throws: Error(internal) for a name that no plan has.
const NamespaceKind& namespace_kind(const std::string& name);

/// Leave for a new user namespace (and those of `more_flags`, CLONE_NEW...), with `identity`
/// mapped. Pre: single-threaded. Throws: Error(host_forbids) naming the setting that is in the way.
void enter_user_namespace(int more_flags, const Identity& identity);

/// Word a refusal of the host: which setting it was, as far as /proc tells, and the remedy.
/// `errno_value` is that of `call` ("unshare", "mount", "write to uid_map").
Error namespace_refusal(int errno_value, const std::string& call);

/// Make every mount of the (new) mount namespace a slave of the host's: nothing we do shows
/// outside, and what the host mounts later, such as an automounter's home directories, shows
/// inside.
void isolate_mounts();

}  // namespace slipway::runtime
