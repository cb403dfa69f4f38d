#include "slipway/base/crc64.hpp"

#include <string_view>

#include "catch.hpp"

namespace {

uint64_t of(std::string_view text, uint64_t before = 0) {
    return slipway::crc64({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, before);
}

}  // namespace

// Source: the catalogue of parametrised CRC algorithms (G. Cook), CRC-64/XZ.
TEST_CASE("crc64 has the published value, also in parts") {
    CHECK(of("123456789") == 0x995dc9bbdf1939fa);
    CHECK(of("56789", of("1234")) == 0x995dc9bbdf1939fa);
    CHECK(of("") == 0);
}
