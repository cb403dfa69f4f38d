// Enters the namespaces of a living process and becomes a command there.
// Must not: make namespaces or mounts.
#include "slipway/runtime/join.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>

#include "exec_command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"
#include "working_directory.hpp"

namespace slipway::runtime {

namespace {

UniqueFd open_namespace(int pid, const char* name) {
    const std::string path = fmt::format("/proc/{}/ns/{}", pid, name);
    try {
        return sys::open(path, O_RDONLY);
    } catch (SysError& error) {
        throw error.note(fmt::format("requested by: joining process {}", pid))
            .hint("name a process of yours that runs in a container");
    }
}

}  // namespace

void run_in_process(int pid, const JoinRequest& request) {
    const UniqueFd user = open_namespace(pid, "user");
    const UniqueFd mount = open_namespace(pid, "mnt");
    const std::string subject = fmt::format("the namespaces of process {}", pid);
    try {
        sys::setns(user.get(), CLONE_NEWUSER, subject);
        sys::setns(mount.get(), CLONE_NEWNS, subject);
    } catch (SysError& error) {
        throw error.hint("name a process that runs in a container, which this may not");
    }
    enter_directory(request.directory, "--cd");
    exec_command(request.argv, with_directory(request.environment));
}

}  // namespace slipway::runtime
