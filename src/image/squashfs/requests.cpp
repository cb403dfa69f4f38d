// Receives requests and hands them to libfuse.
// Must not: know what a request asks.
#define FUSE_USE_VERSION 35
#include "requests.hpp"

#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>

#include <cerrno>
#include <cstdlib>

namespace slipway::image::squashfs {

Requests::Requests(fuse_session* session)
    : session_(session), buffer_(std::make_unique<fuse_buf>()) {}

Requests::~Requests() { std::free(buffer_->mem); }

bool Requests::take() {
    while (!fuse_session_exited(session_)) {
        const int got = fuse_session_receive_buf(session_, buffer_.get());
        if (got == -EINTR || got == -EAGAIN) continue;
        if (got < 0 && got != -ENODEV) failure_ = -got;
        return got > 0;
    }
    return false;
}

bool Requests::is_asked() const {
    switch (static_cast<const fuse_in_header*>(buffer_->mem)->opcode) {
        case FUSE_INIT:
        case FUSE_DESTROY:
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            return false;
        default:
            return true;
    }
}

uint32_t Requests::client() const { return static_cast<const fuse_in_header*>(buffer_->mem)->pid; }

void Requests::answer() { fuse_session_process_buf(session_, buffer_.get()); }

bool Requests::another_waits() const { return wait(0) == Seen::request; }

Requests::Seen Requests::wait(int milliseconds) const {
    pollfd device{fuse_session_fd(session_), POLLIN, 0};
    while (::poll(&device, 1, milliseconds) < 0 && errno == EINTR) continue;
    if ((device.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Seen::end;
    return (device.revents & POLLIN) != 0 ? Seen::request : Seen::nothing;
}

}  // namespace slipway::image::squashfs
