// The container's /etc/passwd and /etc/group: the image's own, with the caller among them.
#pragma once

#include <string>
#include <string_view>

#include "host_facts.hpp"

namespace slipway::runtime {

/// Lines of passwd(5) or group(5).
struct AccountLines {
    std::string own;       ///< the caller's entry: wins over the image's entries of that name
    std::string fallback;  ///< entries that programs count on, for images without them
};

/// The caller's entry in /etc/passwd; `home` is its home directory inside.
AccountLines passwd_lines(const HostFacts& facts, const std::string& home);
/// The caller's entry in /etc/group.
AccountLines group_lines(const HostFacts& facts);

/// The image's file with the lines merged in; pure. The image's order stays; `own` stands where its
/// first entry of that name or id stood, so that a look-up by either finds the caller. Entries of
/// that name go, others of that id stay behind it. Each line of `fallback` is added if neither its
/// name nor its id is there. Lines that are no entries stay as they are.
std::string merge_accounts(std::string_view image, std::string_view own, std::string_view fallback);

}  // namespace slipway::runtime
