// Patterns of .dockerignore and of COPY --exclude.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slipway::builder {

/// A list of patterns: the last one that matches a path or one of its parents decides.
/// Source: moby/patternmatcher.
class IgnorePatterns {
 public:
    IgnorePatterns() = default;
    /// Throws: Error(invalid_recipe) for a pattern that cannot be understood, naming `subject`.
    IgnorePatterns(const std::vector<std::string>& patterns, const std::string& subject);
    /// The patterns of an ignore file: "#" in column 0 is a comment, "!" takes back, a leading "/"
    /// means nothing.
    static IgnorePatterns parse_file(std::string_view text, const std::string& subject);

    /// `path` is clean and relative.
    bool matches(const std::string& path) const;
    /// Whether something below an ignored directory may come back ("!dir/keep").
    bool may_take_back_below(const std::string& directory) const;
    bool empty() const { return patterns_.empty(); }

 private:
    struct Token {
        enum class Kind { literal, any, star, deep, set } kind;
        std::string text;                                     ///< literal: one code point
        std::vector<std::pair<char32_t, char32_t>> ranges{};  ///< set
        bool negated = false;
    };
    struct Pattern {
        std::string text;
        bool takes_back = false;
        std::vector<Token> tokens;
    };
    static Pattern compile(std::string text, const std::string& subject);
    static bool match(const std::vector<Token>& tokens, size_t token, std::string_view path,
                      size_t at);
    std::vector<Pattern> patterns_;
};

/// Match one name or path against a shell pattern (* ? [] and backslash; * stops at "/"), as COPY's
/// sources are. Throws: Error(invalid_recipe) for a malformed pattern.
bool match_wildcard(const std::string& pattern, std::string_view path);
bool has_wildcard(std::string_view text);

}  // namespace slipway::builder
