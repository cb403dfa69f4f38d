// Users and groups of the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace slipway {

struct UserEntry {
    std::string name;
    std::string home;   ///< absolute, or ""
    std::string shell;  ///< "" when none is told
};

/// Look a user up: in /etc/passwd first, which costs nothing, and where it is not there with the
/// site's name services (LDAP and others). std::nullopt for a user without an entry.
std::optional<UserEntry> find_user(uint32_t uid);
/// The same for a group's name.
std::optional<std::string> find_group(uint32_t gid);

}  // namespace slipway
