// Root emulation, first step of the ladder: privileged calls succeed without doing anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipway::runtime {

/// One call whose success is pretended; `calls` are names, of 64-bit and 32-bit interfaces.
struct FakedCalls {
    enum class When {
        always,
        device_mode_1,  ///< argument 1 is a mode that asks for a device
        device_mode_2,  ///< argument 2 is
        id_given        ///< argument 0 is not -1 (setfsuid(-1) asks, it does not set)
    } when = When::always;
    std::vector<std::string> calls;
    std::string reason;
};

/// The policy, as rows with reasons.
const std::vector<FakedCalls>& faked_calls();

/// Install the filter for this process and all it starts. Ownership set through it is forgotten.
/// setxattr is let through: by name (security.*, trusted.*) it cannot be told apart here.
/// Throws: Error(host_forbids) when the kernel has no seccomp filters.
void install_root_filter();

}  // namespace slipway::runtime
