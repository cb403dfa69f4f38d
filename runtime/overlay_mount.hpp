// The one mount(2) call for overlays: layers by descriptor.
#pragma once

#include <string>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::runtime {

struct OverlayFds {
    std::vector<UniqueFd> lowers;  ///< base first
    UniqueFd upper, work, target;
};

/// Mount with `userxattr`; `more` are further options, such as ",volatile". Returns 0 or the errno.
int try_overlay(const OverlayFds& layers, unsigned long flags, const std::string& more);

}  // namespace slipway::runtime
