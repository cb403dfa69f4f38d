// JSON with errors that name the file and the member. Keys are sorted, so the same value gives the
// same bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/base/error.hpp"

namespace slipway {

using Json = nlohmann::json;

/// Throws: Error(kind) naming `subject` and the place of the mistake.
Json parse_json(std::string_view text, const std::string& subject,
                ErrorKind kind = ErrorKind::invalid_image);
/// The same with null for members of the outermost object, which are only looked over: those that
/// are long and not needed.
Json parse_json_without(std::span<const std::string_view> members, std::string_view text,
                        const std::string& subject, ErrorKind kind = ErrorKind::invalid_image);
/// The member as a string; absent or null gives `fallback`. Throws: Error(kind) if it has another
/// type.
std::string json_string(const Json& object, const char* key, const std::string& subject,
                        std::string fallback = {}, ErrorKind kind = ErrorKind::invalid_image);
/// The member as a list of strings; absent or null is an empty list.
std::vector<std::string> json_strings(const Json& object, const char* key,
                                      const std::string& subject,
                                      ErrorKind kind = ErrorKind::invalid_image);
/// Compact bytes; invalid UTF-8 is replaced, never thrown.
std::string to_text(const Json& value, int indent = -1);

}  // namespace slipway
