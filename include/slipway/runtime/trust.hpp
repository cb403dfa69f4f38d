// Whose signatures count on this machine.
#pragma once

#include <string>
#include <vector>

#include "slipway/image/signature.hpp"

namespace slipway::runtime {

/// The site's directory of keys and authorities (trust.d), which a policy goes by.
std::string site_trust_directory();
/// The keys of the files named, or, when none is named, of the trust.d directories of site and
/// user. Throws: Error(usage) when there are none at all, with the places that were looked at.
image::TrustedKeys trusted_keys(const std::vector<std::string>& files);
/// What a pull asks for: required where the site's policy requires signatures, bundles too where
/// somebody's keys lie in a trust.d.
image::SignaturesWanted signatures_wanted();

}  // namespace slipway::runtime
