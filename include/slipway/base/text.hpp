// What every room does with plain text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slipway {

/// Split at every separator; the parts may be empty, and there is at least one.
std::vector<std::string> split(std::string_view text, char separator);

/// The number of single-character edits between two words, for "did you mean".
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace slipway
