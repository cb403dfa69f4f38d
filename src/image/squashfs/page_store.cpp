// Clones a FUSE device for one thread and writes FUSE_NOTIFY_STORE messages to it.
// Must not: be used by a thread that answers, or share descriptors with one.
#include "page_store.hpp"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "slipway/base/sys_process.hpp"

namespace slipway::image::squashfs {
namespace {

/// More than the kernel ever wants room for: an answer of ours has 1 MiB at most.
constexpr size_t kRequestBytes = 4 << 20;

UniqueFd clone_device(int device) {
    UniqueFd own(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    auto source = static_cast<uint32_t>(device);
    if (own && ::ioctl(own.get(), FUSE_DEV_IOC_CLONE, &source) != 0) own.reset();
    return own;
}

/// Fail a request that waits. False at the end of the file system.
bool fail_one(int device, void* buffer) {
    const ssize_t size = ::read(device, buffer, kRequestBytes);
    if (size < static_cast<ssize_t>(sizeof(fuse_in_header)))
        return size < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT);
    fuse_out_header answer = {};
    answer.len = sizeof answer;
    answer.error = -ENOTCONN;
    answer.unique = static_cast<const fuse_in_header*>(buffer)->unique;
    (void)!::write(device, &answer, sizeof answer);  // FORGETs want none
    return true;
}

/// What the guard does: nothing, until the end of `lives`, of which the server's other threads hold
/// the other end. Then it fails what waits, until the server has ended whole. A fork of a process
/// with threads: system calls only.
[[noreturn]] void guard(int lives, int server, int device) {
    ::prctl(PR_SET_NAME, "slipway-guard");
    char none;
    while (::read(lives, &none, 1) < 0 && errno == EINTR) continue;
    void* buffer = ::mmap(nullptr, kRequestBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pollfd waits[2] = {{server, POLLIN, 0}, {device, POLLIN, 0}};
    while (buffer != MAP_FAILED) {
        if (::poll(waits, 2, -1) < 0 && errno != EINTR) break;
        if (waits[0].revents != 0) break;
        if (waits[1].revents != 0 && !fail_one(device, buffer)) waits[1].fd = -1;
    }
    ::_exit(0);
}

}  // namespace

PageStore::PageStore(int device, int image, bool guarded) {
    int ends[2];
    if (!guarded && ::pipe2(ends, O_CLOEXEC) != 0) return;  // the others keep both until they end
    if (::unshare(CLONE_FILES) != 0) return;
    UniqueFd own = clone_device(device);
    if (!own) return;
    if (!guarded) {
        sys::close_all_but({image, own.get(), ends[0]});
        const UniqueFd lives(ends[0]);
        const UniqueFd server(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
        if (!server) return;
        const pid_t child = ::fork();
        if (child < 0) return;
        if (child == 0) guard(lives.get(), server.get(), own.get());
    }
    sys::close_all_but({image, own.get()});
    device_ = std::move(own);
}

void PageStore::store(uint64_t node, uint64_t offset, const uint8_t* data,
                      size_t size_bytes) const {
    fuse_notify_store_out place = {};
    place.nodeid = node;
    place.offset = offset;
    place.size = static_cast<uint32_t>(size_bytes);
    fuse_out_header header = {};
    header.len = static_cast<uint32_t>(sizeof header + sizeof place + size_bytes);
    header.error = FUSE_NOTIFY_STORE;
    const iovec parts[] = {
        {&header, sizeof header}, {&place, sizeof place}, {const_cast<uint8_t*>(data), size_bytes}};
    (void)!::writev(device_.get(), parts, 3);
}

}  // namespace slipway::image::squashfs
