// Patterns in `${name#pattern}` and its kin.
// Must not: know variables or Dockerfiles.
#include "glob.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

ValuePattern::ValuePattern(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        size_t width = 0;
        char32_t rune = decode_rune(text, at, width);
        if (rune == '*') {
            tokens_.push_back({Token::Kind::star, {}});
        } else if (rune == '?') {
            tokens_.push_back({Token::Kind::any, {}});
        } else if (rune == '\\') {
            at += width;
            // "}" and "/" end parts of ${}, so they are escaped without being special here.
            const char next = at < text.size() ? text[at] : '\0';
            if (next == '\0' || std::string_view("*?\\}/").find(next) == std::string_view::npos)
                throw Error(ErrorKind::invalid_recipe,
                            fmt::format("invalid escape in pattern {}", slipway::quoted(text)));
            width = 1;
            tokens_.push_back({Token::Kind::literal, std::string(1, next)});
        } else {
            tokens_.push_back({Token::Kind::literal, std::string(text.substr(at, width))});
        }
        at += width;
    }
}

std::vector<size_t> ValuePattern::match_ends(std::string_view value, size_t from) const {
    std::vector<char> reached(value.size() + 1, 0);
    reached[from] = 1;
    for (const Token& token : tokens_) {
        std::vector<char> next(value.size() + 1, 0);
        for (size_t at = from; at <= value.size(); ++at) {
            if (!reached[at]) continue;
            if (token.kind == Token::Kind::star) next[at] = 1;
            if (at == value.size()) continue;
            size_t width = 0;
            const char32_t rune = decode_rune(value, at, width);
            if (token.kind == Token::Kind::literal) {
                if (value.compare(at, token.text.size(), token.text) == 0)
                    next[at + token.text.size()] = 1;
            } else if (rune != '\n') {  // as "." of the regular expressions this is defined by
                next[at + width] = 1;
                if (token.kind == Token::Kind::star) reached[at + width] = 1;
            }
        }
        reached = std::move(next);
    }
    std::vector<size_t> ends;
    for (size_t at = from; at <= value.size(); ++at)
        if (reached[at]) ends.push_back(at);
    return ends;
}

std::string ValuePattern::without_prefix(std::string_view value, bool greedy) const {
    const auto ends = match_ends(value, 0);
    if (ends.empty()) return std::string(value);
    return std::string(value.substr(greedy ? ends.back() : ends.front()));
}

std::string ValuePattern::without_suffix(std::string_view value, bool greedy) const {
    std::vector<size_t> begins;
    for (size_t at = 0; at <= value.size();) {
        const auto ends = match_ends(value, at);
        if (!ends.empty() && ends.back() == value.size()) begins.push_back(at);
        size_t width = 1;
        if (at < value.size()) decode_rune(value, at, width);
        at += width;
    }
    if (begins.empty()) return std::string(value);
    return std::string(value.substr(0, greedy ? begins.front() : begins.back()));
}

std::string ValuePattern::replaced(std::string_view value, std::string_view replacement,
                                   bool all) const {
    std::string result;
    bool after_match = false;
    for (size_t at = 0; at <= value.size();) {
        const auto ends = match_ends(value, at);
        const bool empty = !ends.empty() && ends.back() == at;
        if (!ends.empty() && !(empty && after_match)) {
            result += replacement;
            if (!all) return result + std::string(value.substr(ends.back()));
            after_match = true;
            if (!empty) {
                at = ends.back();
                continue;
            }
        }
        if (at == value.size()) break;
        size_t width = 0;
        decode_rune(value, at, width);
        result += value.substr(at, width);
        at += width;
        after_match = false;
    }
    return result;
}

}  // namespace slipway::builder
