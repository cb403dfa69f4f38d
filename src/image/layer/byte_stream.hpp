// A blob's bytes after decompression, in pieces. Private to the image room.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "slipway/base/digest.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/base/progress.hpp"

namespace slipway::image {

/// A sequence of bytes handed out in pieces.
class ByteStream {
 public:
    virtual ~ByteStream() = default;
    /// Return the next piece, valid until the next call; empty at the end.
    /// Throws: Error(invalid_archive) when the compressed data is damaged or cut off.
    virtual std::span<const std::byte> next() = 0;
};

/// What a file and its data must be: other digests at their ends are Error(invalid_image).
struct ExpectedDigests {
    Digest stored;        ///< of the file as it lies there; empty: any
    Digest decompressed;  ///< of what is handed out; empty: any
};

/// Read a file from its start, decompressed when its first bytes say gzip or zstd; several gzip
/// members or zstd frames and zero padding after them are accepted. Compressed data is decompressed
/// ahead in a thread of its own, at most 4 MiB ahead. `subject` names the file in errors;
/// `progress`, if given, counts what is read of it.
std::unique_ptr<ByteStream> open_decompressed(UniqueFd fd, const std::string& subject,
                                              const ExpectedDigests& expected = {},
                                              Progress* progress = nullptr);

/// What a file is compressed with, by its first bytes.
enum class Compression { none, gzip, zstd };
Compression detect_compression(int fd, const std::string& subject);

}  // namespace slipway::image
