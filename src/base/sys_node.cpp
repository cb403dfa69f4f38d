// Sockets without a file, shared mappings, record locks and futexes.
// Must not: decide anything or follow a policy.
#include "slipway/base/sys_node.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <sys/epoll.h>
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

struct DiagRequest {
    nlmsghdr header;
    unix_diag_req body;
};

/// The owner in one answer of unix_diag, if the answer is of the socket that is looked for.
std::optional<uid_t> owner_in(const nlmsghdr* message, const std::string& bound_name) {
    const auto* body = static_cast<const unix_diag_msg*>(NLMSG_DATA(message));
    std::optional<uid_t> owner;
    bool found = false;
    int left = static_cast<int>(message->nlmsg_len - NLMSG_LENGTH(sizeof *body));
    for (const auto* attribute = reinterpret_cast<const rtattr*>(body + 1); RTA_OK(attribute, left);
         attribute = RTA_NEXT(attribute, left)) {
        const auto* data = static_cast<const char*>(RTA_DATA(attribute));
        if (attribute->rta_type == UNIX_DIAG_NAME)
            found = std::string_view(data, RTA_PAYLOAD(attribute)) == bound_name;
        if (attribute->rta_type == UNIX_DIAG_UID) {
            uid_t uid = 0;
            std::memcpy(&uid, data, sizeof uid);
            owner = uid;
        }
    }
    return found ? owner : std::nullopt;
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

std::optional<uid_t> abstract_owner(const std::string& name) {
    const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    DiagRequest request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.sdiag_family = AF_UNIX;
    request.body.udiag_states = ~0U;
    request.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
    if (::send(socket.get(), &request, sizeof request, 0) < 0) return std::nullopt;
    const std::string bound_name = std::string(1, '\0') + name;
    alignas(nlmsghdr) char buffer[32 << 10];
    while (true) {
        const ssize_t size = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return std::nullopt;
        auto left = static_cast<unsigned>(size);
        for (const auto* message = reinterpret_cast<const nlmsghdr*>(buffer);
             NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
            if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // done, or error
            if (const auto owner = owner_in(message, bound_name)) return owner;
        }
    }
}

UniqueFd epoll_create() {
    const int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) throw SysError("cannot wait for events", "epoll_create1");
    return UniqueFd(fd);
}

void epoll_add(int epoll, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        throw SysError("cannot wait for events", "epoll_ctl");
}

std::vector<int> epoll_wait(int epoll, int timeout_ms) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll, events, 64, timeout_ms);
    if (count < 0 && errno != EINTR) throw SysError("cannot wait for events", "epoll_wait");
    std::vector<int> ready;
    for (int i = 0; i < count; ++i) ready.push_back(events[i].data.fd);
    return ready;
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
