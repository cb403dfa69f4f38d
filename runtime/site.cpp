// Where a site keeps its settings.
// Must not: read them; each reader knows its own format.
#include "site.hpp"

#include <cstdlib>

namespace slipway::runtime {

std::string site_directory() {
    const char* chosen = std::getenv("SLIPWAY_SITE");
    return chosen != nullptr && *chosen != '\0' ? chosen : "/etc/slipway";
}

}  // namespace slipway::runtime
