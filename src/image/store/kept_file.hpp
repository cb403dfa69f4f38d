// Files of the store that are deleted to save room while others look for them: the squashfs files
// made of images. Private to the image room.
#pragma once

#include <optional>
#include <string>

#include "slipway/base/fd.hpp"

namespace slipway::image {

/// Open such a file so that nobody deletes it as long as the descriptor, or a copy that a child
/// inherited, is open: it shares a lock that whoever deletes takes alone. It counts as used now.
/// std::nullopt if the file is not there. On a file system without locks nothing is deleted, and
/// the file is opened as it is; so it is when somebody keeps it locked for long, who deletes
/// nothing.
std::optional<UniqueFd> hold_kept_file(const std::string& path);

/// The right to delete such a file, until the descriptor is closed; std::nullopt if somebody holds
/// it, or it is gone.
std::optional<UniqueFd> claim_kept_file(const std::string& path);

}  // namespace slipway::image
