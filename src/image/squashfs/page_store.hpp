// Puts pages into the kernel's cache of a FUSE file system, by a device of the calling thread's
// own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slipway/base/fd.hpp"

namespace slipway::image::squashfs {

/// Storing waits for a page that a READ holds, in a way that no signal ends. Were that READ's
/// answer due from a server that has been killed, this thread, the reader and the mount would wait
/// for each other until the machine is started anew. Three things keep that from happening:
///
/// - The thread leaves the process's table of descriptors and takes a clone of the device. When the
///   others end, theirs is closed, and the kernel fails the READs that came by it.
/// - READs are not asynchronous (server.cpp): one that nobody has taken yet ends with its reader.
/// - A process of its own, the guard, fails those whose readers live.
///
/// For one thread: make it and use it there.
class PageStore {
 public:
    /// `device`: any of the connection, open in this thread. Of this thread's descriptors none but
    /// `image` stays open. `guarded`: another thread of the same server has its guard. Where the
    /// kernel or the user's limits do not take part nothing can be stored.
    PageStore(int device, int image, bool guarded);
    explicit operator bool() const { return static_cast<bool>(device_); }
    int device() const { return device_.get(); }
    /// Give the kernel bytes of a file that it knows. A file that it has forgotten, or an end of
    /// the device, is no error.
    void store(uint64_t node, uint64_t offset, const uint8_t* data, size_t size_bytes) const;

 private:
    UniqueFd device_;
};

}  // namespace slipway::image::squashfs
