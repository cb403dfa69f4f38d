// A request to run, validated: what `slipway run` was asked for, in types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bind_spec.hpp"
#include "env_spec.hpp"
#include "identity_spec.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct RunSpec {
    std::vector<std::string> command;
    std::optional<std::vector<std::string>> entrypoint;  ///< absent: the image's
    bool export_directory = false;
    bool shell = false;  ///< the command is a shell of the image, with these arguments
    bool login = false;
    bool command_optional = false;
    bool replace_entrypoint = false;  ///< a command takes the place of ENTRYPOINT and CMD
    MountSpec mounts;
    EnvSpec env;
    IdentitySpec identity;
    std::optional<std::string> directory;
    bool fake_root_calls = false;
    bool share_session = true;
    std::string session_name;  ///< "": from the launcher
    uint64_t linger_ms = 0;
    uint64_t timeout_ms = 0;
    bool detach_on_kill = false;
    std::vector<std::string> library_directories;
};

/// Validate what was typed. Throws: Error(usage) with the origin of what cannot be understood.
RunSpec make_run_spec(const RunOptions& options);

/// Read "1.5", "90s", "10m", "2h" or "1d" as milliseconds. Throws: Error(usage) naming `option`.
uint64_t parse_duration_ms(const std::string& text, const std::string& option);

}  // namespace slipway::runtime
