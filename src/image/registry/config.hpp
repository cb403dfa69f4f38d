// Which hosts serve a repository, and how they are trusted: registries.conf and certs.d of the
// containers' tools. Private to the image room.
#pragma once

#include <string>
#include <vector>

#include "http.hpp"
#include "reference.hpp"

namespace slipway::image {

/// A place that serves a repository.
struct RegistryEndpoint {
    std::string host;  ///< as requests address it: registry-1.docker.io for docker.io
    std::string repository;
    bool verify = true;       ///< check certificates
    bool plain_http = false;  ///< http will do where there is no https
    bool mirror = false;
};

/// One [[registry]] table of registries.conf.
struct RegistryRule {
    struct Mirror {
        std::string location;
        bool insecure = false;
        std::string pull_from = "all";  ///< "all", "digest-only", "tag-only"
    };
    std::string prefix, location;
    bool insecure = false, blocked = false, mirror_by_digest_only = false;
    std::vector<Mirror> mirrors;
};

/// The [[registry]] tables of one file; what else it holds is passed over. `subject` names the file
/// in errors. Throws: Error(usage) for a table that cannot be understood.
std::vector<RegistryRule> parse_registries_conf(const std::string& text,
                                                const std::string& subject);
/// The rules of this user: $CONTAINERS_REGISTRIES_CONF, else ~/.config/containers/registries.conf,
/// else /etc/containers/registries.conf, and the *.conf of registries.conf.d beside the last two.
std::vector<RegistryRule> registry_rules();

/// The places that serve a reference: mirrors in their order, then the registry itself. The rule
/// with the longest prefix counts. Throws: Error(host_forbids) for a blocked one. Source:
/// containers-registries.conf(5).
std::vector<RegistryEndpoint> endpoints_of(const RegistryReference& reference,
                                           const std::vector<RegistryRule>& rules);

/// Certificates for a host from $XDG_CONFIG_HOME/containers/certs.d/HOST (~/.config),
/// /etc/containers/certs.d/HOST and /etc/docker/certs.d/HOST: *.crt to trust, *.cert with *.key to
/// show. Source: containers-certs.d(5).
HttpTrust trust_of(const RegistryEndpoint& endpoint);

/// This machine itself, for which plain http will do, as docker has it.
bool is_loopback(const std::string& host);

}  // namespace slipway::image
