// Ownership of file descriptors.
#pragma once

#include <utility>

namespace slipway {

/// Owns one descriptor; close-on-exec is the opener's duty (every wrapper of sys.hpp sets it).
class UniqueFd {
 public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        reset(std::exchange(other.fd_, -1));
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    /// Close the old descriptor, once: on Linux a close() that fails has closed it all the same.
    void reset(int fd = -1) noexcept;

 private:
    int fd_ = -1;
};

}  // namespace slipway
