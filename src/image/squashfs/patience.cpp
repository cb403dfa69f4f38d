// Finds out whether a read would wait.
// Must not: wait.
#include "patience.hpp"

#include <sys/uio.h>

namespace slipway::image::squashfs {
namespace {

thread_local Patience* told = nullptr;

}  // namespace

void set_patience(Patience* patience) { told = patience; }

void may_wait() {
    if (told != nullptr) told->about_to_wait();
}

bool read_without_waiting(int fd, void* data, size_t size_bytes, uint64_t offset) {
    if (told == nullptr) return false;
    const iovec part{data, size_bytes};
    if (::preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) ==
        static_cast<ssize_t>(size_bytes))
        return true;
    told->about_to_wait();
    return false;
}

}  // namespace slipway::image::squashfs
