// Finds the keys that are believed: those named, else the trust.d directories of site and user.
// Must not: verify anything.
#include "slipway/runtime/trust.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "policy.hpp"
#include "site.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {
namespace {

std::string user_trust_directory() {
    const char* base = std::getenv("XDG_CONFIG_HOME");
    const std::string directory =
        base != nullptr && base[0] == '/' ? base : join_path(home_directory(), ".config");
    return join_path(directory, "slipway/trust.d");
}

bool has_keys(const std::string& directory) {
    const auto fd = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!fd) return false;
    const auto names = sys::list_directory(fd->get(), directory);
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name.ends_with(".pem") || name.ends_with(".pub");
    });
}

}  // namespace

std::string site_trust_directory() { return join_path(site_directory(), "trust.d"); }

image::TrustedKeys trusted_keys(const std::vector<std::string>& files) {
    image::TrustedKeys keys;
    for (const auto& file : files) keys.add_file(file);
    if (!files.empty()) return keys;
    keys.add_directory(site_trust_directory());
    keys.add_directory(user_trust_directory());
    if (keys.empty())
        throw Error(ErrorKind::usage, "there is no key to verify signatures with")
            .note(fmt::format("looked for *.pem and *.pub in {} and {}",
                              slipway::quoted(site_trust_directory()),
                              slipway::quoted(user_trust_directory())))
            .hint("name the signer's public key, or put it into one of these directories");
    return keys;
}

image::SignaturesWanted signatures_wanted() {
    const auto policy = load_policy();
    if (policy && policy->require_signature) return image::SignaturesWanted::required;
    if (has_keys(site_trust_directory()) || has_keys(user_trust_directory()))
        return image::SignaturesWanted::all;
    return image::SignaturesWanted::tag;
}

}  // namespace slipway::runtime
