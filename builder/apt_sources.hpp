// The machine's own apt configuration, and what it says about a suite to bootstrap.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace slipway::builder {

/// One archive: "deb [signed-by=KEYRING] URI SUITE COMPONENTS".
struct AptSource {
    std::string uri;  ///< without a final "/"
    std::string suite;
    std::vector<std::string> components;
    std::string signed_by;  ///< path of a keyring, or "" = apt's trusted keys
};

/// Read one-line (*.list) and deb822 (*.sources) text; entries that are no binary archives, or
/// disabled, are left out. Pure.
std::vector<AptSource> parse_sources_list(const std::string& text);
std::vector<AptSource> parse_deb822_sources(const std::string& text);
/// Everything that apt on this machine uses.
std::vector<AptSource> read_host_sources();

struct Distribution {
    std::string id;        ///< "debian", "ubuntu"
    std::string codename;  ///< "bookworm"
};
Distribution read_host_distribution();
/// The distribution that a suite belongs to; the host's own for one that is not known.
std::string distribution_of(const std::string& suite, const Distribution& host);

/// The archives to bootstrap a suite from, the main one first: the host's mirror with its updates
/// and security pockets where the suite's distribution is the host's, else that distribution's
/// default mirror. `mirror` replaces the main archive's URI. Pure.
std::vector<AptSource> plan_sources(const std::string& suite, const std::string& mirror,
                                    const Distribution& host,
                                    const std::vector<AptSource>& host_sources);

/// "deb [signed-by=...] URI SUITE main"
std::string to_line(const AptSource& source);

}  // namespace slipway::builder
