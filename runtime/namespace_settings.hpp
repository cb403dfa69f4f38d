// The settings of a host that keep an ordinary user from making namespaces.
#pragma once

#include <string>

#include "slipway/base/error.hpp"

namespace slipway::runtime {

/// As /proc and /sys tell; a setting that this kernel does not have keeps its value here.
struct NamespaceSettings {
    long max_user_namespaces = -1;
    long max_mnt_namespaces = -1;
    long unprivileged_userns_clone = 1;  ///< Debian and Ubuntu have it
    long apparmor_restricts = 0;         ///< Ubuntu 23.10 and later
    bool selinux_enforces = false;
    int seccomp_filters = 0;  ///< on this process; -1: some, their number unknown
    bool chrooted = false;
    bool proc_readable = true;
};

NamespaceSettings read_namespace_settings();

/// Word a refusal: the setting in the way and what to type; pure. `call` is "unshare", "mount" or
/// "writing uid_map".
Error explain_refusal(int errno_value, const std::string& call, const NamespaceSettings& settings);

}  // namespace slipway::runtime
