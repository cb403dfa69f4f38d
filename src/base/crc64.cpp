// CRC-64 by a table of the 256 bytes. Source: The .xz File Format 1.1.0, section 6.
// Must not: be what the full program uses; liblzma's own is several times as fast.
#include "slipway/base/crc64.hpp"

#include <array>

namespace slipway {
namespace {

constexpr uint64_t kPolynomial = 0xC96C5795D7870F42;

constexpr std::array<uint64_t, 256> make_table() {
    std::array<uint64_t, 256> table{};
    for (uint64_t byte = 0; byte < table.size(); ++byte) {
        uint64_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
        table[byte] = crc;
    }
    return table;
}

constexpr std::array<uint64_t, 256> kTable = make_table();

}  // namespace

uint64_t crc64(std::span<const uint8_t> data, uint64_t before) noexcept {
    uint64_t crc = ~before;
    for (const uint8_t byte : data) crc = kTable[(crc ^ byte) & 0xff] ^ (crc >> 8);
    return ~crc;
}

}  // namespace slipway
