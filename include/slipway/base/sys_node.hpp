// System calls by which processes of one node find each other, share memory and meet. The same
// manner as sys.hpp: each once, throwing SysError with the call's name.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::sys {

/// Listen on a name of the abstract socket name space (SOCK_SEQPACKET).
UniqueFd listen_abstract(const std::string& name, int backlog);
UniqueFd connect_abstract(const std::string& name);
/// Accept one connection. Throws: Error(busy) when none came before the deadline.
UniqueFd accept(int listener, std::chrono::steady_clock::time_point deadline);
/// The user at the other end of a socket, as our user namespace numbers it.
uid_t peer_uid(int socket);

/// Who owns the unconnected abstract socket of this name, by the kernel's socket diagnosis; a
/// datagram socket has no peer to ask. std::nullopt when there is none, or the kernel does not tell.
/// Source: sock_diag(7), UDIAG_SHOW_UID (Linux 5.4).
std::optional<uid_t> abstract_owner(const std::string& name);

/// An epoll(7) instance; and a descriptor that it watches for input, known by its number.
UniqueFd epoll_create();
void epoll_add(int epoll, int fd);
/// The watched descriptors with input or an end; none after `timeout_ms` (-1: no limit).
std::vector<int> epoll_wait(int epoll, int timeout_ms);

/// Map the first `size` bytes, readable and writable, shared.
void* map_shared(int fd, size_t size, const std::string& subject);

/// Lock one byte of a file for this process, until it ends or closes the file; false if another
/// process has it.
bool lock_byte(int fd, off_t offset);
/// Whether another process holds the lock on a byte.
bool byte_is_locked(int fd, off_t offset);

/// Sleep until woken while `word` holds `expected`; false when the time was up.
bool futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds timeout);
void futex_wake_all(std::atomic<uint32_t>& word);

}  // namespace slipway::sys
