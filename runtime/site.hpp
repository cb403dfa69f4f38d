// Where a site keeps its settings for all users of its machines.
#pragma once

#include <string>

namespace slipway::runtime {

/// $SLIPWAY_SITE, else /etc/slipway. A user who sets the variable chooses other settings: an
/// unprivileged program advises, it cannot enforce.
std::string site_directory();

}  // namespace slipway::runtime
