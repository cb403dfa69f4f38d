// Owners of a bootstrapped system's files, found again where they can be known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace slipway::builder {

struct RecoveredOwner {
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t mode = 0;  ///< 07777, or 0 = as it is on disk
};

/// Every path (clean, relative to the root) whose owner is not root: from the packages' own
/// archives below `packages`, from dpkg-statoverride's list, and from what Debian's base packages
/// are known to set while they are configured (/etc/shadow and a few more).
/// `root` is the directory of the installed system.
std::map<std::string, RecoveredOwner> recover_owners(const std::string& root,
                                                     const std::string& packages);

}  // namespace slipway::builder
