// The second step: logical lines -> keyword, flags and arguments, by each keyword's own grammar.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lines.hpp"

namespace slipway::builder {

/// One instruction as written. Unknown keywords are kept: the typed step refuses them.
struct SyntaxNode {
    std::string keyword;                 ///< lower case
    std::vector<std::string> flags;      ///< "--from=x", quotes and escapes taken away
    std::vector<std::string> arguments;  ///< of ENV and LABEL: name, value, "=" or "" each time
    bool json = false;                   ///< written as a JSON array
    std::vector<SyntaxNode> trigger;     ///< of ONBUILD: one
    std::vector<Heredoc> heredocs;
    std::string original;
    Place place;
};

struct SyntaxTree {
    std::vector<SyntaxNode> nodes;
    char escape = '\\';
    std::map<std::string, std::string> directives;
    std::vector<std::string> warnings;
};

/// Parse a whole Dockerfile. `subject` is its name in errors ("Dockerfile").
/// Throws: Error(invalid_recipe) with the line.
SyntaxTree parse_syntax(std::string_view bytes, const std::string& subject);

/// The tree as s-expressions, a line per instruction: the form of BuildKit's test corpus.
std::string dump(const SyntaxTree& tree);

}  // namespace slipway::builder
