// Bytes as base64 text, as signatures are written. Private to the image room.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slipway::image {

/// The standard alphabet, padded.
std::string to_base64(std::string_view bytes);
/// Either alphabet, padded or not; std::nullopt for anything else: blanks, line ends, padding
/// within the text, bits left over that are not zero. One text for one value, but for alphabet and
/// padding. Source: RFC 4648; DSSE's envelope.md allows both alphabets.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace slipway::image
