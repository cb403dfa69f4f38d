// Files of ours whose mode shuts even us out.
#pragma once

#include <string>

#include "slipway/base/fd.hpp"

namespace slipway {

/// Open a file for reading. One that belongs to us but forbids its owner to read (/etc/shadow of
/// some distributions has mode 0) is lent the permission while it is opened: its mode and
/// modification time stay. Never follows a link, never blocks on a FIFO. Throws: SysError.
UniqueFd open_own_file(int dir, const std::string& path);

}  // namespace slipway
