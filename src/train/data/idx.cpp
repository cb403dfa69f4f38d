// Reads IDX files and believes nothing in them.
// Must not: know what the numbers mean.
#include "data/idx.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

namespace slipway::train {

namespace {

constexpr uint64_t kLimitBytes = uint64_t{4} << 30;

Error broken(const std::string& subject, const std::string& why) {
    return Error(ErrorKind::invalid_data,
                 fmt::format("{} is no valid IDX file: {}", slipway::quoted(subject), why));
}

std::string inflate_gzip(std::string_view bytes, const std::string& subject) {
    z_stream stream{};
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
        throw Error(ErrorKind::internal, "zlib cannot start");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    std::string output;
    int status = Z_OK;
    while (status == Z_OK) {
        const size_t filled = output.size();
        output.resize(filled + (size_t{1} << 20));
        stream.next_out = reinterpret_cast<Bytef*>(output.data() + filled);
        stream.avail_out = 1u << 20;
        status = inflate(&stream, Z_NO_FLUSH);
        output.resize(output.size() - stream.avail_out);
        if (output.size() > kLimitBytes) status = Z_MEM_ERROR;
    }
    const bool rest = stream.avail_in > 0;
    inflateEnd(&stream);
    if (status == Z_BUF_ERROR) throw broken(subject, "its gzip data ends early");
    if (status == Z_MEM_ERROR) throw broken(subject, "it is larger than 4 GiB");
    if (status != Z_STREAM_END) throw broken(subject, "its gzip data is damaged");
    if (rest) throw broken(subject, "something follows its gzip data");
    return output;
}

}  // namespace

IdxArray parse_idx(std::string_view bytes, const std::string& subject) {
    std::string inflated;
    if (bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b') {
        inflated = inflate_gzip(bytes, subject);
        bytes = inflated;
    }
    const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    if (bytes.size() < 4) throw broken(subject, fmt::format("it has only {} bytes", bytes.size()));
    if (byte_at(0) != 0 || byte_at(1) != 0) throw broken(subject, "wrong magic number");
    if (byte_at(2) != 0x08)
        throw broken(subject,
                     fmt::format("element type 0x{:02x} is not unsigned byte (0x08)", byte_at(2)));
    const size_t dimensions = byte_at(3);
    if (dimensions < 1 || dimensions > 4)
        throw broken(subject, fmt::format("it has {} dimensions", dimensions));
    const size_t header = 4 + 4 * dimensions;
    if (bytes.size() < header) throw broken(subject, "it ends within its header");

    IdxArray array;
    uint64_t total = 1;
    for (size_t d = 0; d < dimensions; ++d) {
        uint32_t extent = 0;
        for (size_t i = 0; i < 4; ++i) extent = extent << 8 | byte_at(4 + 4 * d + i);
        array.extents.push_back(extent);
        if (extent == 0) throw broken(subject, fmt::format("extent {} is zero", d + 1));
        total *= extent;
        if (total > kLimitBytes) throw broken(subject, "its extents multiply to more than 4 GiB");
    }
    const uint64_t present = bytes.size() - header;
    if (present != total)
        throw broken(subject, fmt::format("{} bytes of data are declared, {} are there{}", total,
                                          present, present < total ? " (truncated?)" : ""));
    array.values.assign(bytes.begin() + static_cast<ptrdiff_t>(header), bytes.end());
    return array;
}

IdxArray read_idx(const std::string& path) { return parse_idx(read_file(path, kLimitBytes), path); }

}  // namespace slipway::train
