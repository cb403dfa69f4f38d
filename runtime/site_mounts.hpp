// The binds that a site, or a user for all of their runs, asks for in files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bind_spec.hpp"

namespace slipway::runtime {

/// The value of a variable, if it is set.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

/// One file's lines SRC[:DST[:OPTIONS]]: comments with "#", $VAR and ${VAR} expanded by
/// `lookup`. A line with a variable that is not set is left out if it is `optional`. `name` is the
/// file's, for origins: "/etc/slipway/mounts.d/10-scratch.conf, line 3".
/// Throws: Error(usage) naming file and line.
std::vector<BindSpec> parse_site_mounts(const std::string& text, const std::string& name,
                                        const Lookup& lookup);

/// Read mounts.d/*.conf of the site's directory, then of the user's (~/.config/slipway, by
/// $XDG_CONFIG_HOME), each sorted by name. Neither needs to be there.
/// Throws: Error(usage); SysError for a file that cannot be read.
std::vector<BindSpec> read_site_mounts();

}  // namespace slipway::runtime
