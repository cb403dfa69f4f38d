// The messages between a session's ranks, its maker and its broker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slipway::runtime {

/// What a rank asks for. With the datagram come one end of a pair of sockets for the answer, and
/// the member's pidfd. Other versions have other session keys.
struct SessionRequest {
    uint64_t linger_ms = 0;  ///< how long the session is kept after its end, at least
    std::string identity;    ///< of the plan
};
std::string to_message(const SessionRequest& request);
/// std::nullopt for what no rank sends.
std::optional<SessionRequest> parse_request(std::string_view message);

/// Longest request, answer or error.
inline constexpr size_t kMaxSessionMessage = 128 << 10;

/// First byte of a broker's answer.
enum class Answer : char {
    wait = 'w',      ///< the container is being made; another answer follows
    entered = 'e',   ///< the namespaces' descriptors come along, in the order of the plan
    failed = 'f',    ///< the serialized error of the set-up follows
    conflict = 'x',  ///< the session has another plan, whose identity follows
};

/// First byte of what the maker hands to the broker.
enum class HandOver : char {
    container = 'c',         ///< the namespaces' descriptors
    served_container = 's',  ///< the same, and the pidfd of the image's server
    failed = 'f',            ///< a serialized error
};

}  // namespace slipway::runtime
