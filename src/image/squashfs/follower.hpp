// A server's thread on the processor of its client.
#pragma once

#include <cstdint>

namespace slipway::image::squashfs {

/// Client and server take turns as long as one process asks, and nobody else: waking a processor
/// that sleeps costs more than most answers. One thread's.
class Follower {
 public:
    /// A request of this process was answered, and none waits. After many in a row this thread goes
    /// where that process runs.
    void asked_by(uint32_t pid);
    /// Somebody waits: run wherever there is room.
    void let_go();

 private:
    uint32_t client_ = 0;
    unsigned asked_ = 0;
    int processor_ = -1;
};

}  // namespace slipway::image::squashfs
