// RUN --mount: the text `type=cache,target=/x` -> what is asked.
#pragma once

#include <functional>
#include <string>

#include "plan.hpp"

namespace slipway::builder {

/// A mount as asked; `from` is a stage or image, not resolved yet.
struct MountRequest {
    MountAction action;
    std::string from;
};

/// Parse one --mount. `expand` expands every value but that of `from`; relative targets lie below
/// `working_directory`.
/// Throws: Error(invalid_recipe) for what BuildKit refuses; Error(unsupported) for secret and ssh
/// mounts, writable binds and host users, which this version does not do.
MountRequest parse_mount(const std::string& text, const std::string& working_directory,
                         const std::function<std::string(const std::string&)>& expand);

}  // namespace slipway::builder
