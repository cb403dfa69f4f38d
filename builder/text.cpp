// Text as Dockerfiles see it: code points, white space, quoting.
// Must not: know instructions.
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace slipway::builder {

namespace {

bool is_continuation_byte(std::string_view text, size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

bool is_blank(char c) { return c == '\t' || c == '\v' || c == '\f' || c == '\r' || c == ' '; }

// What Go's %q prints as it is; the rest is escaped. Format and separator characters are the ones
// that appear in practice.
bool is_printable(char32_t rune) {
    if (rune < 0x20 || rune == 0x7F) return false;
    if (rune < 0x7F) return true;
    if (rune < 0xA1 || rune == 0xAD) return false;
    if (is_space(rune) || (rune >= 0x200B && rune <= 0x200F)) return false;
    if ((rune >= 0x202A && rune <= 0x202E) || (rune >= 0x2060 && rune <= 0x206F)) return false;
    return rune != 0xFEFF && !(rune >= 0xE000 && rune <= 0xF8FF);
}

}  // namespace

char32_t decode_rune(std::string_view text, size_t at, size_t& width) {
    const auto first = static_cast<unsigned char>(text[at]);
    width = 1;
    if (first < 0x80) return first;
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
    if (length == 0 || first > 0xF4) return 0xFFFD;
    char32_t rune = first & (0x7F >> length);
    for (size_t i = 1; i < length; ++i) {
        if (!is_continuation_byte(text, at + i)) return 0xFFFD;
        rune = (rune << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3F);
    }
    const bool overlong = (length == 3 && rune < 0x800) || (length == 4 && rune < 0x10000);
    if (overlong || rune > 0x10FFFF || (rune >= 0xD800 && rune <= 0xDFFF)) return 0xFFFD;
    width = length;
    return rune;
}

bool is_space(char32_t rune) {
    if (rune == ' ' || (rune >= '\t' && rune <= '\r') || rune == 0x85 || rune == 0xA0) return true;
    return rune == 0x1680 || (rune >= 0x2000 && rune <= 0x200A) || rune == 0x2028 ||
           rune == 0x2029 || rune == 0x202F || rune == 0x205F || rune == 0x3000;
}

bool is_digit(char32_t rune) { return rune >= '0' && rune <= '9'; }

bool is_letter(char32_t rune) {
    return (rune >= 'a' && rune <= 'z') || (rune >= 'A' && rune <= 'Z') ||
           (rune >= 0x80 && rune != 0xFFFD && !is_space(rune));
}

std::string_view trim_left(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
        size_t width = 0;
        if (!is_space(decode_rune(text, at, width))) break;
        at += width;
    }
    return text.substr(at);
}

std::string_view trim(std::string_view text) {
    text = trim_left(text);
    size_t end = 0;
    for (size_t at = 0; at < text.size();) {
        size_t width = 0;
        const bool space = is_space(decode_rune(text, at, width));
        at += width;
        if (!space) end = at;
    }
    return text.substr(0, end);
}

std::string to_lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

std::string to_upper(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return result;
}

bool starts_with(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> split_blanks(std::string_view text, size_t limit) {
    std::vector<std::string> parts;
    size_t begin = 0;
    while (limit == 0 || parts.size() + 1 < limit) {
        size_t end = begin;
        while (end < text.size() && !is_blank(text[end])) ++end;
        if (end == text.size()) break;
        parts.emplace_back(text.substr(begin, end - begin));
        begin = end;
        while (begin < text.size() && is_blank(text[begin])) ++begin;
    }
    parts.emplace_back(text.substr(begin));
    return parts;
}

std::string go_quoted(std::string_view text) {
    std::string result = "\"";
    for (size_t at = 0; at < text.size();) {
        size_t width = 0;
        const char32_t rune = decode_rune(text, at, width);
        const std::string_view bytes = text.substr(at, width);
        at += width;
        static constexpr std::string_view kControls = "\a\b\f\n\r\t\v";
        if (rune == '"' || rune == '\\') {
            result += '\\';
            result += static_cast<char>(rune);
        } else if (rune < 0x20 && rune != 0 && kControls.find(bytes[0]) != std::string::npos) {
            result += '\\';
            result += "abfnrtv"[kControls.find(bytes[0])];
        } else if (rune == 0xFFFD && width == 1) {
            result += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
        } else if (is_printable(rune)) {
            result += bytes;
        } else if (rune < 0x80) {
            result += fmt::format("\\x{:02x}", static_cast<unsigned>(rune));
        } else {
            result += rune < 0x10000 ? fmt::format("\\u{:04x}", static_cast<unsigned>(rune))
                                     : fmt::format("\\U{:08x}", static_cast<unsigned>(rune));
        }
    }
    return result + '"';
}

}  // namespace slipway::builder
