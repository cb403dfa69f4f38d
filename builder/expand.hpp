// Variables, quotes and escapes in a Dockerfile's words: what BuildKit's shell lexer does.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace slipway::builder {

using Variables = std::map<std::string, std::string>;

struct ExpandOptions {
    char escape = '\\';
    bool keep_quotes = false;      ///< quotes stay in the result
    bool keep_escapes = false;     ///< escape characters stay in the result
    bool quotes_are_text = false;  ///< quotes mean nothing (bodies of heredocs)
    bool keep_unset = false;       ///< a variable that is not set stays as it was written
};

struct Expansion {
    std::string text;
    std::vector<std::string> words;  ///< the text split at white space that no quotes protect
    std::set<std::string> used;      ///< variables that had a value
    std::set<std::string> missing;   ///< variables that had none
};

/// Expand one word or line. Pure.
/// Throws: Error(invalid_recipe) for an open quote, a bad substitution, `${X:?message}`.
/// Source: moby/buildkit frontend/dockerfile/shell/lex.go.
Expansion expand(std::string_view text, const Variables& variables,
                 const ExpandOptions& options = {});

}  // namespace slipway::builder
