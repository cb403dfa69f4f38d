// Whom a request wants to be inside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct IdentitySpec {
    std::optional<uint32_t> uid, gid;  ///< absent: the caller's
    std::string hostname;              ///< "": the host's
    bool keep_accounts = false;        ///< passwd and group of the image stay as they are
    bool ignore_image_user = false;    ///< the image's USER does not count
};

/// Throws: Error(usage), Error(conflict).
IdentitySpec make_identity_spec(const RunOptions& options);

}  // namespace slipway::runtime
