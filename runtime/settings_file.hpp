// Files in which a site or a user writes settings: JSON objects whose every key is known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/base/json.hpp"

namespace slipway::runtime {

/// Read a file of settings; std::nullopt when there is none. One that is there but cannot be read
/// is an error: nobody's rules are passed over in silence. Throws: Error(usage) naming the file,
/// and the key that is not among `known`.
std::optional<Json> read_settings_file(const std::string& path,
                                       const std::vector<std::string>& known);
/// The same of a text; `path` is for messages.
Json parse_settings(const std::string& text, const std::string& path,
                    const std::vector<std::string>& known);

/// An error of the value of one key.
Error setting_error(const std::string& path, const std::string& key, const std::string& problem);

}  // namespace slipway::runtime
