// Decompression of one squashfs block, bounded in size and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace slipway::image::squashfs {

/// The name of a codec number of a superblock, "" for one that squashfs does not know.
std::string_view codec_name(uint16_t codec);
/// Whether this build reads it.
bool codec_supported(uint16_t codec);

/// Decompress into at most `capacity` bytes; std::nullopt for damaged data. Any thread; each keeps
/// a context of its own.
std::optional<size_t> decompress(uint16_t codec, const void* input, size_t input_bytes,
                                 void* output, size_t capacity);

}  // namespace slipway::image::squashfs
