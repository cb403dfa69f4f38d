// Reading ahead what the start of a program will ask for.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "reader.hpp"

namespace slipway::image::squashfs {

/// Bytes of files that are read ahead, of all together and of one.
inline constexpr uint64_t kMostAhead = 8u << 20;
inline constexpr uint64_t kMostAheadOfFile = 2u << 20;

/// Bring the files of a start into the reader's cache: the first of `programs` that is there, its
/// interpreter and libraries, and `files`. Links are followed inside. Returns early when `stop` is
/// set, and silently where the image lacks something or is damaged: whoever asks is told then.
/// `found` is told of each file before it is read. Returns the bytes read ahead.
uint64_t read_start_files(const ImageReader& reader, const std::vector<std::string>& programs,
                          const std::vector<std::string>& files, const std::atomic<bool>& stop,
                          const std::function<void(const InodeInfo&)>& found = {});

}  // namespace slipway::image::squashfs
