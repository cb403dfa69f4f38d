// Tells reading from front to back from reading here and there.
// Must not: wait for the disk.
#include "disk_ahead.hpp"

#include <algorithm>

namespace slipway::image::squashfs {
namespace {

constexpr uint64_t kSlack = 1 << 20;       // threads overtake each other
constexpr uint64_t kEvidence = 256 << 10;  // of a run, before anything is asked for
constexpr uint64_t kWindow = 4 << 20;

}  // namespace

void DiskAhead::will_read(uint64_t position, uint64_t size_bytes, uint64_t end) {
    uint64_t from = 0, to = 0;
    {
        const std::lock_guard lock(mutex_);
        if (position + kSlack < last_ || position > last_ + kSlack) {
            last_ = position + size_bytes;
            run_ = asked_ = 0;
            return;
        }
        last_ = std::max(last_, position + size_bytes);
        run_ += size_bytes;
        if (run_ < kEvidence || last_ + kWindow / 2 < asked_) return;
        from = std::max(asked_, last_);
        to = asked_ = std::min(from + kWindow, end);
    }
    if (from < to) file_.read_ahead(from, to - from);
}

}  // namespace slipway::image::squashfs
