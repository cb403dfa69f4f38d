// Users and passwords of registries, from the files that podman, skopeo and docker keep. Private to
// the image room.
#pragma once

#include <optional>
#include <string>

namespace slipway::image {

struct RegistryCredentials {
    std::string user;
    std::string password;
    std::string identity_token;  ///< an OAuth2 refresh token in place of the two
    std::string origin;          ///< the file or helper, for messages
};

/// The most specific entry for host/repository: of `file` if given, else of $REGISTRY_AUTH_FILE,
/// else of the first that has one among $XDG_RUNTIME_DIR/containers/auth.json,
/// $XDG_CONFIG_HOME/containers/auth.json, $DOCKER_CONFIG/config.json and ~/.dockercfg. Credential
/// helpers are run. Throws: Error(usage) for a file that cannot be understood; Error(not_found) if
/// `file` is not there. Source: containers-auth.json(5).
std::optional<RegistryCredentials> find_credentials(const std::string& host,
                                                    const std::string& repository,
                                                    const std::string& file = {});

/// The text that Basic authentication sends. Source: RFC 7617, RFC 4648.
std::string base64(const std::string& data);

}  // namespace slipway::image
