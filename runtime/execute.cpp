// Applies a run plan to this process.
// Must not: fork on the way to the command, beyond the broker and the image's server.
#include "execute.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <cerrno>
#include <optional>

#include "container.hpp"
#include "exec_command.hpp"
#include "fuse_server.hpp"
#include "namespaces.hpp"
#include "root_filter.hpp"
#include "session.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/fault.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "supervise.hpp"
#include "working_directory.hpp"

namespace slipway::runtime {

namespace {

std::vector<UniqueFd> open_namespaces(const RunPlan& plan) {
    std::vector<UniqueFd> opened;
    for (const auto& name : plan.namespaces)
        opened.push_back(sys::open(fmt::format("/proc/self/ns/{}", namespace_kind(name).file),
                                   O_RDONLY | O_CLOEXEC));
    return opened;
}

/// Make the plan's container around this process. `server` gets the image's server, if there is
/// one. Returns the container's namespaces, in the order of the plan.
std::vector<UniqueFd> make_container(const RunPlan& plan, std::optional<FuseServer>& server) {
    const bool served = needs_server(plan);
    enter_user_namespace(served ? 0 : CLONE_NEWNS,
                         {plan.uid_inside, plan.gid_inside, plan.uid_outside, plan.gid_outside});
    fault::point("container.user-namespace");
    if (served) {  // it stays in the host's mount namespace
        server = start_fuse_server(plan);
        fault::point("container.server-started");
        sys::unshare(CLONE_NEWNS);
    }
    if (!plan.hostname.empty()) {
        sys::unshare(CLONE_NEWUTS);
        sys::sethostname(plan.hostname);
    }
    auto namespaces = open_namespaces(plan);  // here is a /proc for certain
    isolate_mounts();
    assemble_container(plan, server ? &*server : nullptr);
    fault::point("container.assembled");
    return namespaces;
}

/// Let the container's loader find libraries that were mounted: by its own ldconfig, and before
/// anybody else is in it.
void refresh_libraries(const std::vector<std::string>& directories) {
    ForkedChild child = fork_child([&]() -> int {
        std::vector<std::string> argv{"ldconfig"};
        argv.insert(argv.end(), directories.begin(), directories.end());
        exec_command(argv, {"PATH=/sbin:/usr/sbin:/bin:/usr/bin"});
    });
    try {
        if (const ExitStatus status = wait_forked(child); !status.success())
            log::warning("ldconfig of the image ended with {}", status.describe());
    } catch (const Error& error) {
        log::warning("the image's loader does not know the mounted libraries: {}", error.message());
    }
}

/// Make the container of a session whose name we hold, or a private one without a duty.
void make_container_for(const RunPlan& plan, SessionDuty* duty) {
    std::optional<FuseServer> server;
    try {
        const auto namespaces = make_container(plan, server);
        if (!plan.library_directories.empty()) refresh_libraries(plan.library_directories);
        if (duty == nullptr) return;
        std::vector<int> numbers;
        for (const auto& fd : namespaces) numbers.push_back(fd.get());
        UniqueFd server_fd;
        if (server && !(server_fd = take_server_pidfd(*server)))
            throw Error(ErrorKind::io, "the image's server is gone");
        duty->hand_over(numbers, server_fd.get());
        fault::point("session.handed-over");
    } catch (const Error& error) {
        if (server && server_has_ended(*server))  // killed: those who wait make another session
            throw Error(ErrorKind::io, "the image's server ended before the container was ready")
                .note(error.message())
                .hint("run the command again");
        if (duty != nullptr) duty->fail(error);
        throw;
    }
}

void enter_container(const RunPlan& plan) {
    SessionEntry entry;
    if (!plan.session_key.empty()) entry = enter_session(plan);
    if (entry.kind == SessionEntry::Kind::entered) return;
    make_container_for(plan, entry.duty ? &*entry.duty : nullptr);
}

[[noreturn]] void become_command(const RunPlan& plan) {
    if (plan.fake_root_calls) install_root_filter();
    const auto environment =
        plan.export_directory ? with_directory(plan.environment) : plan.environment;
    if (!plan.shells.empty()) exec_shell(plan.shells, plan.argv, environment);
    exec_command(plan.argv, environment);
}

}  // namespace

void execute_plan(const RunPlan& plan) {
    if (!plan.namespaces.empty()) enter_container(plan);
    fault::point("container.entered");
    enter_directory(plan.working_directory, plan.reasons.working_directory);
    if (needs_supervisor(plan)) supervise(plan, [&plan] { become_command(plan); });
    become_command(plan);
}

}  // namespace slipway::runtime
