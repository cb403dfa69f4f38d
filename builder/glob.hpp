// Patterns in `${name#pattern}` and its kin: * and ?, a backslash escapes; no brackets.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipway::builder {

/// A compiled pattern. Stars take as much as they can when `greedy`, else as little.
class ValuePattern {
 public:
    /// Throws: Error(invalid_recipe) when a backslash escapes what needs none.
    explicit ValuePattern(std::string_view text);

    /// The value without its shortest or longest beginning (end) that matches.
    std::string without_prefix(std::string_view value, bool greedy) const;
    std::string without_suffix(std::string_view value, bool greedy) const;
    /// The value with the first match, or all, replaced.
    std::string replaced(std::string_view value, std::string_view replacement, bool all) const;

 private:
    struct Token {
        enum class Kind { literal, any, star } kind;
        std::string text;
    };
    /// Which ends (byte offsets, ascending) a match that begins at `from` can have.
    std::vector<size_t> match_ends(std::string_view value, size_t from) const;
    std::vector<Token> tokens_;
};

}  // namespace slipway::builder
