// The container's /etc/passwd and /etc/group: the image's own, with the caller among them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plan_identity.hpp"

namespace slipway::runtime {

/// Lines of passwd(5) or group(5).
struct AccountLines {
    std::string own;       ///< the caller's entry: wins over the image's entries of that name
    std::string fallback;  ///< entries that programs count on, for images without them
};

/// For /etc/passwd: the caller's entry under its own id and name; for an id without a name that we
/// know, one that counts only if the image has none. `home` is the home directory inside.
AccountLines passwd_lines(const PlannedIdentity& identity, const std::string& home);
/// The same for /etc/group.
AccountLines group_lines(const PlannedIdentity& identity);

/// passwd(5) lines with /bin/sh in place of each shell that `is_there` denies: a login through one
/// that the image lacks would fail. Pure.
std::string with_present_shells(std::string_view lines,
                                const std::function<bool(const std::string&)>& is_there);

/// The image's file with the lines merged in; pure. The image's order stays; `own` stands where its
/// first entry of that name or id stood, so that a look-up by either finds the caller. Entries of
/// that name go, others of that id stay behind it. Each line of `fallback` is added if neither its
/// name nor its id is there. Lines that are no entries stay as they are.
std::string merge_accounts(std::string_view image, std::string_view own, std::string_view fallback);

}  // namespace slipway::runtime
