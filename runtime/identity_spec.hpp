// Whom a request wants to be inside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// A user, and perhaps a group, by name or number: --user, or the image's USER.
struct UserRequest {
    std::string user;
    std::optional<std::string> group;
    std::string origin;  ///< "--user", "the image's USER"
};

struct IdentitySpec {
    std::optional<uint32_t> uid, gid;  ///< --uid, --gid; absent: the caller's
    bool root = false;                 ///< --root
    std::optional<UserRequest> user;   ///< --user, looked up in the image
    std::string hostname;              ///< "": the host's
    bool keep_accounts = false;        ///< passwd and group of the image stay as they are
    bool ignore_image_user = false;    ///< the image's USER does not count
};

/// Throws: Error(usage), Error(conflict).
IdentitySpec make_identity_spec(const RunOptions& options);

/// Understand "NAME|UID[:GROUP|GID]". Throws: Error(usage) naming `origin`.
UserRequest parse_user(const std::string& text, const std::string& origin);
/// A decimal id, or std::nullopt. The highest number is no id: the kernel means "none" by it.
std::optional<uint32_t> parse_id(const std::string& text);

}  // namespace slipway::runtime
