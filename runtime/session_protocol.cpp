// The bytes of a session's messages.
// Must not: send or receive them.
#include "session_protocol.hpp"

#include <cstring>

namespace slipway::runtime {

namespace {

constexpr char kRequestByte = 3;

}  // namespace

std::string to_message(const SessionRequest& request) {
    std::string message(1 + sizeof request.linger_ms, kRequestByte);
    std::memcpy(&message[1], &request.linger_ms, sizeof request.linger_ms);
    return message + request.identity;
}

std::optional<SessionRequest> parse_request(std::string_view message) {
    SessionRequest request;
    if (message.size() < 1 + sizeof request.linger_ms || message[0] != kRequestByte)
        return std::nullopt;
    std::memcpy(&request.linger_ms, &message[1], sizeof request.linger_ms);
    request.identity = message.substr(1 + sizeof request.linger_ms);
    return request;
}

}  // namespace slipway::runtime
