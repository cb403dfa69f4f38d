// System calls on pidfds, pipes and sockets, each once, with its name and its subject in the error.
// Must not: decide anything; retry close(); follow a policy.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::sys {

UniqueFd pidfd_open(pid_t pid) {
    const long fd = ::syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) throw SysError(fmt::format("cannot open process {}", pid), "pidfd_open");
    return UniqueFd(static_cast<int>(fd));
}

void pidfd_send_signal(int pidfd, int signal) {
    if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0 && errno != ESRCH)
        throw SysError(fmt::format("cannot send signal {}", signal), "pidfd_send_signal");
}

UniqueFd memfd_create(const std::string& name) {
    const int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
    if (fd < 0) throw SysError("cannot make an anonymous file", "memfd_create");
    return UniqueFd(fd);
}

std::pair<UniqueFd, UniqueFd> pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("cannot make a pipe", "pipe2");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::pair<UniqueFd, UniqueFd> socketpair(int type) {
    int ends[2];
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
        throw SysError("cannot make a socket pair", "socketpair");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_cloexec(int fd, bool on) {
    if (::fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) != 0)
        throw SysError("cannot set close-on-exec", "fcntl");
}

void hold_standard_descriptors() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!::open("/dev/null", O_RDWR | O_CLOEXEC);  // takes the lowest number, this one
}

namespace {

constexpr size_t kMaxDescriptors = 16;

/// One part of data, with room for descriptors and credentials.
struct Message {
    explicit Message(std::span<const std::byte> data)
        : part{const_cast<std::byte*>(data.data()), data.size()} {
        header.msg_iov = &part;
        header.msg_iovlen = 1;
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    iovec part;
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int)) +
                                  CMSG_SPACE(sizeof(ucred))] = {};
    msghdr header{};
};

void attach_descriptors(Message& message, std::span<const int> fds) {
    if (fds.size() > kMaxDescriptors)
        throw Error(ErrorKind::internal, "too many descriptors in one message");
    if (fds.empty()) return;
    message.header.msg_control = message.control;
    message.header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* first = CMSG_FIRSTHDR(&message.header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(first), fds.data(), fds.size_bytes());
}

/// The bytes that came, or -1 with errno.
ssize_t receive(int socket, Message& message, int flags) {
    message.header.msg_control = message.control;
    message.header.msg_controllen = sizeof message.control;
    ssize_t size = 0;
    while ((size = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | flags)) < 0)
        if (errno != EINTR) break;
    return size;
}

void take_control(msghdr& message, std::vector<UniqueFd>& fds, std::optional<uid_t>* uid) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET) continue;
        if (header->cmsg_type == SCM_CREDENTIALS && uid != nullptr) {
            ucred sender{};
            std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
            *uid = sender.uid;
        }
        if (header->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            fds.emplace_back(fd);
        }
    }
}

}  // namespace

void send_message(int socket, std::span<const std::byte> data, std::span<const int> fds) {
    Message message(data);
    attach_descriptors(message, fds);
    while (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) throw SysError("cannot send a message", "sendmsg");
}

size_t receive_message(int socket, std::span<std::byte> data, std::vector<UniqueFd>& fds) {
    Message message(data);
    const ssize_t size = receive(socket, message, 0);
    if (size < 0) throw SysError("cannot receive a message", "recvmsg");
    take_control(message.header, fds, nullptr);
    return static_cast<size_t>(size);
}

UniqueFd datagram_socket() {
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) throw SysError("cannot make a socket", "socket");
    return UniqueFd(fd);
}

namespace {

/// The address of an abstract name: a NUL byte, the name, no terminator. Source: unix(7).
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof address.sun_path)
        throw Error(ErrorKind::internal, "the socket name is too long");
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

bool bind_abstract(int socket, const std::string& name) {
    sockaddr_un address;
    const socklen_t size = abstract_address(name, address);
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
    if (errno == EADDRINUSE) return false;
    throw SysError(fmt::format("cannot bind the socket {}", quoted(name)), "bind");
}

int send_to_abstract(int socket, const std::string& name, std::span<const std::byte> data,
                     std::span<const int> fds) {
    sockaddr_un address;
    const socklen_t size = abstract_address(name, address);
    Message message(data);
    message.header.msg_name = &address;
    message.header.msg_namelen = size;
    attach_descriptors(message, fds);
    while (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

void pass_credentials(int socket) {
    const int on = 1;
    if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
        throw SysError("cannot ask for credentials", "setsockopt");
}

std::optional<Received> receive_now(int socket, std::span<std::byte> data) {
    Message message(data);
    const ssize_t size = receive(socket, message, MSG_DONTWAIT);
    if (size < 0) {
        if (errno == EAGAIN) return std::nullopt;
        if (errno == ECONNRESET) return Received{};
        throw SysError("cannot receive a message", "recvmsg");
    }
    Received received;
    received.size = static_cast<size_t>(size);
    take_control(message.header, received.fds, &received.uid);
    return received;
}

void set_parent_death_signal(int signal) {
    if (::prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0)
        throw SysError("cannot ask for a signal", "prctl");
}

void set_child_subreaper() {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        throw SysError("cannot adopt orphans", "prctl");
}

}  // namespace slipway::sys
