// Running a command in the container of a process that lives.
#pragma once

#include <string>
#include <vector>

namespace slipway::runtime {

struct JoinRequest {
    std::vector<std::string> argv;
    std::vector<std::string> environment;  ///< "K=V"; PWD is set to the directory
    std::string directory;                 ///< inside, absolute
};

/// Become the command, in the user and mount namespaces of process `pid`. Throws:
/// Error(not_found), SysError, when the process is gone or another user's; and as every start of a
/// command.
[[noreturn]] void run_in_process(int pid, const JoinRequest& request);

}  // namespace slipway::runtime
