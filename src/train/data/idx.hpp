// IDX files (MNIST's format), plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slipway::train {

/// An array of unsigned bytes; the last extent varies fastest.
struct IdxArray {
    std::vector<int64_t> extents;
    std::vector<uint8_t> values;
};

/// Read what `bytes` hold: gzip or plain.
/// Throws: Error(invalid_data) naming `subject` when magic, type, extents or length are not right.
/// Source: http://yann.lecun.com/exdb/mnist, "the IDX file format".
IdxArray parse_idx(std::string_view bytes, const std::string& subject);
IdxArray read_idx(const std::string& path);

}  // namespace slipway::train
