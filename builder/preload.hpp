// Bundles that --preload adds to an image.
#pragma once

#include <string>

namespace slipway::builder {

/// The directory of a bundle, beside this program: ../libexec/slipway/preload/NAME.
/// Throws: Error(not_found) with the remedy; Error(usage) for a name that is no name.
std::string find_bundle(const std::string& name);

}  // namespace slipway::builder
