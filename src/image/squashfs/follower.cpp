// Binds a thread to its client's processor, and frees it.
// Must not: stay bound when another client comes.
#include "follower.hpp"

#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr unsigned kStart = 128;     // requests: that of a program asks less, and has more to do
constexpr unsigned kLookEvery = 32;  // looking costs as much as answering one

}  // namespace

void Follower::asked_by(uint32_t pid) {
    if (pid != client_) {
        let_go();
        client_ = pid;
        asked_ = 0;
        return;
    }
    if (++asked_ < kStart || asked_ % kLookEvery != 0) return;
    const auto client = read_process(static_cast<int>(pid));
    if (!client || client->processor == processor_) return;
    if (sys::run_on_processor(client->processor)) processor_ = client->processor;
}

void Follower::let_go() {
    if (processor_ < 0) return;
    sys::run_on_all_processors();
    processor_ = -1;
}

}  // namespace slipway::image::squashfs
