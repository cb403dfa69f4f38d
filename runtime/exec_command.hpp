// The last act: replace this process by the user's command, or say why that is impossible.
#pragma once

#include <string>
#include <vector>

namespace slipway::runtime {

/// PATH of an environment, or what counts without one.
std::string search_path(const std::vector<std::string>& environment);

/// Look `argv[0]` up in the PATH of `environment` as a shell does and execute it. Does not return.
/// Throws: Error with exit status 127 when there is no such program, 126 when it cannot be
/// executed.
[[noreturn]] void exec_command(const std::vector<std::string>& argv,
                               const std::vector<std::string>& environment);

/// Execute the first of `shells` (absolute paths, or names to look up in PATH) that can be executed
/// here, as argv[0], with SHELL set to it. Does not return.
/// Throws: Error with exit status 127 when none is there, 126 when it cannot be executed.
[[noreturn]] void exec_shell(const std::vector<std::string>& shells, std::vector<std::string> argv,
                             std::vector<std::string> environment);

}  // namespace slipway::runtime
