// Closing descriptors.
// Must not: retry close().
#include "slipway/base/fd.hpp"

#include <unistd.h>

#include <cerrno>

namespace slipway {

void UniqueFd::reset(int fd) noexcept {
    if (fd_ >= 0) {
        const int saved = errno;
        ::close(fd_);
        errno = saved;
    }
    fd_ = fd;
}

}  // namespace slipway
