// Turns what was typed of users and names into types.
// Must not: look anything up, on the host or in the image.
#include "identity_spec.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "slipway/base/error.hpp"

namespace slipway::runtime {

namespace {

constexpr size_t kMaxHostname = 64;  // the kernel's __NEW_UTS_LEN

uint32_t take_id(const std::string& text, const std::string& option) {
    if (const auto id = parse_id(text)) return *id;
    throw Error(ErrorKind::usage, fmt::format("{} is no id", slipway::quoted(text)))
        .note("requested by: " + option)
        .hint("write a number from 0 to 4294967294; --user takes names");
}

void check_hostname(const std::string& name) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
    };
    if (!name.empty() && name.size() <= kMaxHostname &&
        std::all_of(name.begin(), name.end(), plain))
        return;
    throw Error(ErrorKind::usage, fmt::format("{} is no host name", slipway::quoted(name)))
        .note("requested by: --hostname")
        .hint("write at most 64 letters, digits, dots and hyphens");
}

void refuse_both(bool first, bool second, const char* first_name, const char* second_name) {
    if (!first || !second) return;
    throw Error(ErrorKind::conflict,
                fmt::format("{} and {} exclude each other", first_name, second_name))
        .hint("keep the one that says who you want to be inside");
}

}  // namespace

std::optional<uint32_t> parse_id(const std::string& text) {
    if (text.empty() || text.size() > 10 ||
        text.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
    const unsigned long long value = std::stoull(text);
    if (value >= UINT32_MAX) return std::nullopt;
    return static_cast<uint32_t>(value);
}

UserRequest parse_user(const std::string& text, const std::string& origin) {
    const size_t colon = text.find(':');
    UserRequest request{text.substr(0, colon), std::nullopt, origin};
    if (colon != std::string::npos) request.group = text.substr(colon + 1);
    if (request.user.empty() || (request.group && request.group->empty()) ||
        (request.group && request.group->find(':') != std::string::npos))
        throw Error(ErrorKind::usage,
                    fmt::format("cannot understand the user {}", slipway::quoted(text)))
            .note("requested by: " + origin)
            .hint("write NAME or UID, and a group after a colon if you want: --user 1000:100");
    return request;
}

IdentitySpec make_identity_spec(const RunOptions& options) {
    IdentitySpec spec;
    refuse_both(options.root, options.user.has_value(), "--root", "--user");
    refuse_both(options.root, options.uid.has_value(), "--root", "--uid");
    refuse_both(options.root, options.gid.has_value(), "--root", "--gid");
    refuse_both(options.user.has_value(), options.uid.has_value(), "--user", "--uid");
    refuse_both(options.user.has_value(), options.gid.has_value(), "--user", "--gid");
    spec.root = options.root;
    if (options.uid) spec.uid = take_id(*options.uid, "--uid");
    if (options.gid) spec.gid = take_id(*options.gid, "--gid");
    if (options.user) spec.user = parse_user(*options.user, "--user");
    if (options.hostname) {
        check_hostname(*options.hostname);
        spec.hostname = *options.hostname;
    }
    spec.keep_accounts = options.keep_accounts;
    spec.ignore_image_user = options.ignore_image_user;
    return spec;
}

}  // namespace slipway::runtime
