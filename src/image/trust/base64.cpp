// Base64, read strictly.
// Must not: pass over what is no part of the encoding.
#include "base64.hpp"

#include <cstdint>

namespace slipway::image {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::optional<uint32_t> value_of(char c) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    return static_cast<uint32_t>(value);
}

}  // namespace

std::string to_base64(std::string_view bytes) {
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        const auto byte = [&](size_t at) {
            return at < bytes.size() ? static_cast<uint32_t>(static_cast<unsigned char>(bytes[at]))
                                     : 0u;
        };
        const uint32_t bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        for (size_t k = 0; k < 4; ++k)
            text += i + k > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * k) & 63];
    }
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    if (text.size() % 4 == 0)
        for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
    if (text.size() % 4 == 1) return std::nullopt;
    std::string bytes;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        const auto value = value_of(c);
        if (!value) return std::nullopt;
        bits = bits << 6 | *value;
        if ((count += 6) < 8) continue;
        count -= 8;
        bytes += static_cast<char>(bits >> count & 0xff);
    }
    if ((bits & ((1u << count) - 1)) != 0) return std::nullopt;
    return bytes;
}

}  // namespace slipway::image
