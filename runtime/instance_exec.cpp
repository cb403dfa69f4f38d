// Becomes a command inside the container of an instance.
// Must not: enter the namespaces of a process that has not been proven to be the instance's.
#include "instance_exec.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <cstdlib>
#include <map>

#include "execute.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/runtime/instance.hpp"

namespace slipway::runtime {

namespace {

struct NamespaceKind {
    const char* name;
    int flag;
};
constexpr NamespaceKind kNamespaces[] = {
    {"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},  {"uts", CLONE_NEWUTS},
    {"ipc", CLONE_NEWIPC},   {"net", CLONE_NEWNET}, {"cgroup", CLONE_NEWCGROUP},
};

Error ended(const std::string& name) {
    return Error(ErrorKind::not_found,
                 fmt::format("there is no instance {} on this host", slipway::quoted(name)))
        .hint("slipway instance list");
}

/// The flags of setns(2) for the namespaces that differ from ours.
int foreign_namespaces(pid_t pid) {
    int flags = 0;
    for (const auto& kind : kNamespaces) {
        const std::string theirs = fmt::format("/proc/{}/ns/{}", pid, kind.name);
        const std::string ours = fmt::format("/proc/self/ns/{}", kind.name);
        if (sys::readlinkat(AT_FDCWD, theirs) != sys::readlinkat(AT_FDCWD, ours))
            flags |= kind.flag;
    }
    return flags;
}

std::vector<std::string> plan_environment(const InstanceRecord& record,
                                          const std::vector<std::string>& changes) {
    std::map<std::string, std::string> variables;
    const auto set = [&](const std::string& entry) {
        const size_t equals = entry.find('=');
        variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    };
    for (const auto& entry : record.environment) set(entry);
    // The terminal is the caller's, not that of who started the instance.
    if (const char* terminal = std::getenv("TERM")) variables["TERM"] = terminal;
    for (const auto& change : changes) {
        if (change.empty() || change[0] == '=')
            throw Error(ErrorKind::usage,
                        fmt::format("cannot understand the variable {}", slipway::quoted(change)))
                .note("requested by: --env")
                .hint("write KEY=VALUE, or KEY for the value that it has here");
        if (change.find('=') != std::string::npos)
            set(change);
        else if (const char* value = std::getenv(change.c_str()))
            variables[change] = value;
    }
    std::vector<std::string> entries;
    for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
    return entries;
}

}  // namespace

InstanceRecord find_instance(const InstanceDirectory& directory, const std::string& name) {
    check_instance_name(name);
    const auto record = directory.read(name);
    if (!record) throw ended(name);
    if (!record->end.empty()) throw ended(name).note("it has ended: " + record->end);
    if (is_alive(record->supervisor) && !record->entered)
        throw Error(ErrorKind::busy,
                    fmt::format("the instance {} is still being started", slipway::quoted(name)))
            .hint("wait until `slipway instance start` has returned");
    if (!is_alive(record->command)) throw ended(name).note("its command has ended");
    return *record;
}

void enter_instance(const InstanceRecord& record) {
    const auto command = open_process(record.command);
    if (!command) throw ended(record.name).note("its command has ended");
    // By the descriptor, which is proven, even if the number meant another process by now.
    if (const int flags = foreign_namespaces(record.command.pid); flags != 0)
        sys::setns(command->get(), flags, "the instance " + record.name);
}

void exec_in_instance(const InstanceExec& request) {
    const InstanceRecord record = find_instance(InstanceDirectory::open(), request.name);
    RunPlan plan;
    plan.argv = request.command;
    plan.environment = plan_environment(record, request.env);
    plan.working_directory = request.directory.value_or(record.working_directory);
    plan.fake_root_calls = record.fake_root_calls;
    enter_instance(record);
    execute_plan(plan);
}

}  // namespace slipway::runtime
