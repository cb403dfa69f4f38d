// Applies a run plan to this process.
// Must not: fork on the way to the command, beyond the broker and the image's server.
#include "execute.hpp"

#include <sched.h>

#include <optional>

#include "container.hpp"
#include "exec_command.hpp"
#include "fuse_server.hpp"
#include "namespaces.hpp"
#include "session.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

void make_private_container(const RunPlan& plan) {
    enter_user_namespace(0, {plan.uid_inside, plan.gid_inside, plan.uid_outside, plan.gid_outside});
    std::optional<FuseServer> server;
    if (needs_server(plan)) server = start_fuse_server(plan);
    sys::unshare(CLONE_NEWNS);
    isolate_mounts();
    assemble_container(plan, server ? &*server : nullptr);
}

}  // namespace

void execute_plan(const RunPlan& plan) {
    if (!plan.namespaces.empty() && (plan.session_key.empty() || !enter_session(plan)))
        make_private_container(plan);
    try {
        sys::chdir(plan.working_directory);
    } catch (SysError& error) {
        throw error.note("requested by: --cd, or the image's WORKDIR")
            .hint("choose a directory of the image with --cd");
    }
    exec_command(plan.argv, plan.environment);
}

}  // namespace slipway::runtime
