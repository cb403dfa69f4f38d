// What makes two runs fit into one session, as text that can be compared and shown.
#pragma once

#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// Everything of a plan that its container is made of, one fact a line: ids, namespaces, the image
/// in its state, each mount. Plans with equal texts share a session.
std::string session_identity(const RunPlan& plan);

/// A short name for a text: 32 hexadecimal digits. Not for secrets: members of a session compare
/// the whole identity.
std::string session_hash(std::string_view text);

/// The lines that only one of two identities has, "this run: ..." and "the session: ...", at most
/// `limit` of each.
std::vector<std::string> identity_differences(const std::string& ours, const std::string& theirs,
                                              size_t limit = 4);

}  // namespace slipway::runtime
