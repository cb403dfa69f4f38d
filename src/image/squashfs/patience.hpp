// Where a thread is about to wait for a disk: whoever depends on it can find another first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipway::image::squashfs {

/// Called by a thread before it waits for a disk or a file system over a network.
class Patience {
 public:
    virtual void about_to_wait() = 0;

 protected:
    ~Patience() = default;
};

/// Whom this thread tells from now on; null: nobody.
void set_patience(Patience* patience);

/// Read what is in memory already at once; before anything else tell this thread's Patience, and
/// return false: then the caller reads as ever. Source: preadv2(2), RWF_NOWAIT.
bool read_without_waiting(int fd, void* data, size_t size_bytes, uint64_t offset);
/// The same without reading, where it cannot be known.
void may_wait();

}  // namespace slipway::image::squashfs
