// The requests of a FUSE device, one at a time.
#pragma once

#include <cstdint>
#include <memory>

struct fuse_buf;
struct fuse_session;

namespace slipway::image::squashfs {

/// What one thread takes from the device and answers. Not to be shared by threads; several may take
/// from one device.
class Requests {
 public:
    explicit Requests(fuse_session* session);
    ~Requests();
    Requests(const Requests&) = delete;
    Requests& operator=(const Requests&) = delete;

    /// Wait for the next request and take it. False when the device has ended.
    bool take();
    /// An errno, where the device did not end because nothing is mounted any more; else 0.
    int failure() const { return failure_; }
    /// False when the kernel itself says something (INIT, FORGET, INTERRUPT). Pre: take().
    bool is_asked() const;
    /// The thread that asks; 0 if it has no number here. Pre: is_asked().
    uint32_t client() const;
    /// Pre: take().
    void answer();
    /// True when a request lies there now.
    bool another_waits() const;
    enum class Seen { request, nothing, end };
    /// Wait until one does, the device has ended, or `milliseconds` are over (-1: never). Of those
    /// who wait in take() a request wakes one, of those who wait here all; but who finds that it
    /// was taken meanwhile waits on.
    Seen wait(int milliseconds = -1) const;

 private:
    fuse_session* const session_;
    const std::unique_ptr<fuse_buf> buffer_;
    int failure_ = 0;
};

}  // namespace slipway::image::squashfs
