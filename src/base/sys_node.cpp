// Sockets without a file, shared mappings, record locks and futexes.
// Must not: decide anything or follow a policy.
#include "slipway/base/sys_node.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "slipway/base/error.hpp"

namespace slipway::sys {
namespace {

struct AbstractAddress {
    sockaddr_un address{};
    socklen_t size = 0;
};

AbstractAddress abstract_address(const std::string& name) {
    AbstractAddress result;
    if (name.size() + 1 > sizeof result.address.sun_path)
        throw Error(ErrorKind::internal, "socket name too long: " + slipway::quoted(name));
    result.address.sun_family = AF_UNIX;
    std::memcpy(result.address.sun_path + 1, name.data(), name.size());
    result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return result;
}

UniqueFd seqpacket() {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) throw SysError("cannot make a socket", "socket");
    return UniqueFd(fd);
}

struct flock byte_lock(off_t offset) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = offset;
    lock.l_len = 1;
    return lock;
}

}  // namespace

UniqueFd listen_abstract(const std::string& name, int backlog) {
    const AbstractAddress where = abstract_address(name);
    UniqueFd fd = seqpacket();
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where.address), where.size) != 0)
        throw SysError("cannot bind socket " + slipway::quoted("@" + name), "bind");
    if (::listen(fd.get(), backlog) != 0)
        throw SysError("cannot listen on socket " + slipway::quoted("@" + name), "listen");
    return fd;
}

UniqueFd connect_abstract(const std::string& name) {
    const AbstractAddress where = abstract_address(name);
    UniqueFd fd = seqpacket();
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where.address), where.size) != 0)
        throw SysError("cannot connect to socket " + slipway::quoted("@" + name), "connect");
    return fd;
}

UniqueFd accept(int listener, std::chrono::steady_clock::time_point deadline) {
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        pollfd entry{listener, POLLIN, 0};
        const int ready =
            ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX)));
        if (ready == 0) throw Error(ErrorKind::busy, "a peer has not connected in time");
        if (ready < 0 && errno != EINTR) throw SysError("cannot wait for a connection", "poll");
        if (ready < 0) continue;
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) return UniqueFd(fd);
        if (errno != EINTR && errno != ECONNABORTED)
            throw SysError("cannot accept a connection", "accept4");
    }
}

uid_t peer_uid(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        throw SysError("cannot tell a socket's peer", "getsockopt");
    return peer.uid;
}

void* map_shared(int fd, size_t size, const std::string& subject) {
    void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) throw SysError("cannot map " + subject, "mmap");
    return base;
}

bool lock_byte(int fd, off_t offset) {
    struct flock lock = byte_lock(offset);
    if (::fcntl(fd, F_SETLK, &lock) == 0) return true;
    if (errno == EACCES || errno == EAGAIN) return false;
    throw SysError("cannot lock a byte", "fcntl");
}

bool byte_is_locked(int fd, off_t offset) {
    struct flock lock = byte_lock(offset);
    if (::fcntl(fd, F_GETLK, &lock) != 0) throw SysError("cannot ask for a lock", "fcntl");
    return lock.l_type != F_UNLCK;
}

bool futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds timeout) {
    static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
    const timespec time{timeout.count() / 1000, timeout.count() % 1000 * 1000000};
    const long status = ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
    if (status == 0 || errno == EAGAIN || errno == EINTR) return true;
    if (errno == ETIMEDOUT) return false;
    throw SysError("cannot wait on shared memory", "futex");
}

void futex_wake_all(std::atomic<uint32_t>& word) {
    if (::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0) < 0)
        throw SysError("cannot wake peers", "futex");
}

}  // namespace slipway::sys
