// Text as Dockerfiles see it: code points, white space, Go's %q.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slipway/base/text.hpp"

namespace slipway::builder {

/// Read the code point at `at` and how many bytes it takes; a byte that is no UTF-8 counts as one
/// code point, U+FFFD. Pre: at < text.size().
char32_t decode_rune(std::string_view text, size_t at, size_t& width);
bool is_space(char32_t rune);  ///< Unicode white space
bool is_digit(char32_t rune);
bool is_letter(char32_t rune);  ///< every code point beyond ASCII counts as a letter

std::string_view trim_left(std::string_view text);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);  ///< ASCII only
std::string to_upper(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
std::string join(const std::vector<std::string>& words, std::string_view separator);
/// Split at runs of tab, vertical tab, form feed, carriage return and space, into at most `limit`
/// parts (0: as many as there are).
std::vector<std::string> split_blanks(std::string_view text, size_t limit = 0);

/// Quote as Go's %q does.
std::string go_quoted(std::string_view text);

}  // namespace slipway::builder
