// The bytes of a squashfs, wherever in a file it begins: every read of an image goes through here.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "../trust/hash_tree.hpp"
#include "patience.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {

/// A squashfs within an open file: a file of its own (offset 0), or a partition of a SIF. Positions
/// are those that the squashfs knows. The descriptor stays the caller's.
struct ImageFile {
    int fd = -1;
    uint64_t offset_bytes = 0;
    std::shared_ptr<const SealedContent> sealed = {};  ///< every byte is checked against it

    /// 0 at the end.
    size_t read(void* data, size_t size, uint64_t position, const std::string& subject) const {
        if (sealed) {
            may_wait();
            return sealed->read(fd, data, size, position, subject);
        }
        if (read_without_waiting(fd, data, size, offset_bytes + position)) return size;
        return sys::pread(fd, data, size, offset_bytes + position, subject);
    }
    /// Have bytes read from the disk without waiting for them. A wish: nothing comes of a failure.
    void read_ahead(uint64_t position, uint64_t size_bytes) const {
        ::posix_fadvise(fd, static_cast<off_t>(offset_bytes + position),
                        static_cast<off_t>(size_bytes), POSIX_FADV_WILLNEED);
    }
    /// What the file holds from the squashfs's beginning on.
    uint64_t size_bytes(const std::string& subject) const {
        const auto size = static_cast<uint64_t>(sys::fstat(fd, subject).st_size);
        return size > offset_bytes ? size - offset_bytes : 0;
    }
};

/// A squashfs that is read against the seal with this digest, or as it is if there is none. Only a
/// file of its own can have one. Throws: Error(invalid_image) when the file has not this seal.
ImageFile open_image(int fd, uint64_t offset_bytes, const std::string& subject, const Digest& seal);

}  // namespace slipway::image::squashfs
