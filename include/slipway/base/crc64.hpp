// The checksum of xz streams, without the look at the processor that liblzma's takes before main().
#pragma once

#include <cstdint>
#include <span>

namespace slipway {

/// CRC-64 as in the .xz format (ECMA-182, reflected), of `data` after what had `before`; 0 begins.
uint64_t crc64(std::span<const uint8_t> data, uint64_t before) noexcept;

}  // namespace slipway
