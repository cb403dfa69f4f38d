// Patterns of .dockerignore and of COPY's sources.
// Must not: look at files.
#include "ignore.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

[[noreturn]] void malformed(const std::string& pattern, const std::string& subject) {
    throw Error(ErrorKind::invalid_recipe,
                fmt::format("{}: the pattern {} is malformed", subject, slipway::quoted(pattern)));
}

/// One member of a bracket expression, which a backslash may escape.
char32_t take_set_member(std::string_view text, size_t& at, const std::string& subject) {
    if (at < text.size() && text[at] == '\\')
        ++at;
    else if (at < text.size() && (text[at] == '-' || text[at] == ']'))
        malformed(std::string(text), subject);
    if (at >= text.size()) malformed(std::string(text), subject);
    size_t width = 0;
    const char32_t rune = decode_rune(text, at, width);
    at += width;
    return rune;
}

}  // namespace

IgnorePatterns::Pattern IgnorePatterns::compile(std::string text, const std::string& subject) {
    Pattern pattern;
    pattern.text = std::move(text);
    const std::string_view source = pattern.text;
    using Kind = Token::Kind;
    for (size_t at = 0; at < source.size();) {
        size_t width = 0;
        const char32_t rune = decode_rune(source, at, width);
        const size_t begin = at;
        at += width;
        if (rune == '*' && at < source.size() && source[at] == '*') {
            ++at;
            if (at < source.size() && source[at] == '/') ++at;  // "**/" is "**"
            // "**name" at the beginning, without other specials, is any path that ends so.
            const bool suffix = begin == 0 && at == 2 &&
                                source.find_first_of("*?[]\\", at) == std::string_view::npos;
            pattern.tokens.push_back({Kind::deep, at == source.size() ? "end"
                                                  : suffix            ? "suffix"
                                                                      : ""});
        } else if (rune == '*') {
            pattern.tokens.push_back({Kind::star, {}});
        } else if (rune == '?') {
            pattern.tokens.push_back({Kind::any, {}});
        } else if (rune == '[') {
            Token token{Kind::set, {}};
            if (at < source.size() && source[at] == '^') {
                token.negated = true;
                ++at;
            }
            while (at >= source.size() || source[at] != ']' || token.ranges.empty()) {
                const char32_t low = take_set_member(source, at, subject);
                char32_t high = low;
                if (at < source.size() && source[at] == '-')
                    high = take_set_member(source, ++at, subject);
                token.ranges.emplace_back(low, high);
            }
            ++at;
            pattern.tokens.push_back(std::move(token));
        } else if (rune == '\\') {
            if (at >= source.size()) malformed(pattern.text, subject);
            decode_rune(source, at, width);
            pattern.tokens.push_back({Kind::literal, std::string(source.substr(at, width))});
            at += width;
        } else {
            pattern.tokens.push_back({Kind::literal, std::string(source.substr(begin, width))});
        }
    }
    return pattern;
}

bool IgnorePatterns::match(const std::vector<Token>& tokens, size_t token, std::string_view path,
                           size_t at) {
    using Kind = Token::Kind;
    for (; token < tokens.size(); ++token) {
        const Token& t = tokens[token];
        if (t.kind == Kind::deep) {
            if (t.text == "end") return true;
            for (size_t next = at; next <= path.size(); ++next) {
                const bool boundary = next == at || path[next - 1] == '/' || t.text == "suffix";
                if (boundary && match(tokens, token + 1, path, next)) return true;
            }
            return false;
        }
        if (t.kind == Kind::star) {
            for (size_t next = at;; ++next) {
                if (match(tokens, token + 1, path, next)) return true;
                if (next >= path.size() || path[next] == '/') return false;
            }
        }
        if (at >= path.size()) return false;
        size_t width = 0;
        const char32_t rune = decode_rune(path, at, width);
        if (t.kind == Kind::literal && path.substr(at, t.text.size()) != t.text) return false;
        if (t.kind == Kind::any && rune == '/') return false;
        if (t.kind == Kind::set) {
            const bool inside = std::any_of(t.ranges.begin(), t.ranges.end(), [&](const auto& r) {
                return rune >= r.first && rune <= r.second;
            });
            if (inside == t.negated) return false;
        }
        at += width;
    }
    return at == path.size();
}

IgnorePatterns::IgnorePatterns(const std::vector<std::string>& patterns,
                               const std::string& subject) {
    for (const std::string& line : patterns) {
        std::string text(trim(line));
        const bool takes_back = !text.empty() && text[0] == '!';
        if (takes_back) text = trim(std::string_view(text).substr(1));
        if (takes_back && text.empty()) malformed(line, subject);
        if (text.empty()) continue;
        text = lexically_normal(text);
        while (text.size() > 1 && text[0] == '/') text.erase(0, 1);
        Pattern pattern = compile(std::move(text), subject);
        pattern.takes_back = takes_back;
        patterns_.push_back(std::move(pattern));
    }
}

IgnorePatterns IgnorePatterns::parse_file(std::string_view text, const std::string& subject) {
    if (starts_with(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
    std::vector<std::string> patterns;
    for (std::string& line : split(text, '\n'))
        if (!starts_with(line, "#")) patterns.push_back(std::move(line));
    return IgnorePatterns(patterns, subject);
}

bool IgnorePatterns::matches(const std::string& path) const {
    bool ignored = false;
    for (const Pattern& pattern : patterns_) {
        if (pattern.takes_back != ignored) continue;  // it could change nothing
        bool hit = match(pattern.tokens, 0, path, 0);
        for (size_t slash = path.find('/'); !hit && slash != std::string::npos;
             slash = path.find('/', slash + 1))
            hit = match(pattern.tokens, 0, std::string_view(path).substr(0, slash), 0);
        if (hit) ignored = !pattern.takes_back;
    }
    return ignored;
}

bool IgnorePatterns::may_take_back_below(const std::string& directory) const {
    for (const Pattern& pattern : patterns_) {
        if (!pattern.takes_back) continue;
        const size_t special = pattern.text.find_first_of("*?[\\");
        const std::string fixed = pattern.text.substr(0, special);
        const std::string below = directory + "/";
        if (starts_with(fixed, below) ||
            (special != std::string::npos && starts_with(below, fixed)))
            return true;
    }
    return false;
}

bool match_wildcard(const std::string& pattern, std::string_view path) {
    // COPY's sources know no "**": two stars are one.
    std::string single(starts_with(pattern, "!") ? "\\" : "");
    for (const char c : pattern)
        if (c != '*' || single.empty() || single.back() != '*') single += c;
    // Brackets and escapes are the same as in ignore patterns.
    const IgnorePatterns compiled({single}, "source");
    return compiled.matches(std::string(path)) && std::count(single.begin(), single.end(), '/') ==
                                                      std::count(path.begin(), path.end(), '/');
}

bool has_wildcard(std::string_view text) {
    return text.find_first_of("*?[") != std::string_view::npos;
}

}  // namespace slipway::builder
