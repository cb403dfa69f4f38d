// The image's own bytes, read from the disk before they are wanted.
#pragma once

#include <cstdint>
#include <mutex>

#include "image_file.hpp"

namespace slipway::image::squashfs {

/// Sees in the places of blocks whether the image is read from front to back, and then has a window
/// of it read at once: several threads on one descriptor hide that from the kernel.
class DiskAhead {
 public:
    explicit DiskAhead(const ImageFile& file) : file_(file) {}
    /// A block is about to be read. Any thread.
    void will_read(uint64_t position, uint64_t size_bytes, uint64_t end);

 private:
    const ImageFile file_;
    std::mutex mutex_;
    uint64_t last_ = 0;   ///< the farthest that the present run has come
    uint64_t run_ = 0;    ///< bytes read in it
    uint64_t asked_ = 0;  ///< up to where the disk was asked
};

}  // namespace slipway::image::squashfs
