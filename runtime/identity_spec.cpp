// Turns what was typed of users and names into types.
// Must not: look anything up on the host.
#include "identity_spec.hpp"

namespace slipway::runtime {

IdentitySpec make_identity_spec(const RunOptions& options) {
    IdentitySpec spec;
    spec.keep_accounts = options.keep_accounts;
    spec.ignore_image_user = options.ignore_image_user;
    return spec;
}

}  // namespace slipway::runtime
