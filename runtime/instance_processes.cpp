// Finds and kills what belongs to an instance, however far it went from its supervisor.
// Must not: touch a process that has no tie to the instance that can be proven.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "instance_state.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

constexpr auto kPause = std::chrono::milliseconds(10);
constexpr uint64_t kMaxEnvironment = 16u << 20;

struct Candidate {
    ProcessIdentity process;
    std::string mount_namespace;  ///< "" when we may not know
    bool proven = false;
};

bool has_variable(pid_t pid, const std::string& variable) {
    try {
        const std::string text =
            '\0' + read_file("/proc/" + std::to_string(pid) + "/environ", kMaxEnvironment);
        return text.find('\0' + variable + '\0') != std::string::npos;
    } catch (const Error&) {  // another user's, or gone
        return false;
    }
}

std::vector<Candidate> candidates(const InstanceRecord& record) {
    const std::string variable = std::string(kInstanceIdVariable) + "=" + record.id;
    std::vector<Candidate> found;
    const UniqueFd proc = sys::open("/proc", O_RDONLY | O_DIRECTORY);
    for (const auto& name : sys::list_directory(proc.get(), "/proc")) {
        if (name[0] < '0' || name[0] > '9') continue;
        const pid_t pid = std::atoi(name.c_str());
        const auto facts = read_process(pid);
        if (!facts || facts->state == 'Z' || pid == ::getpid() || pid == record.supervisor.pid)
            continue;
        Candidate one{{pid, facts->start_time}, mount_namespace_of(name), false};
        // A process whose namespaces are hidden from us hides its environment as well.
        if (!one.mount_namespace.empty()) one.proven = has_variable(pid, variable);
        found.push_back(std::move(one));
    }
    return found;
}

}  // namespace

std::string mount_namespace_of(const std::string& proc_name) {
    try {
        return sys::readlinkat(AT_FDCWD, "/proc/" + proc_name + "/ns/mnt");
    } catch (const SysError&) {
        return "";
    }
}

InstanceProcesses processes_of(const InstanceRecord& record) {
    auto found = candidates(record);
    std::vector<ProcessIdentity> descendants;
    if (is_alive(record.supervisor)) descendants = descendants_of(record.supervisor.pid);
    const auto descends = [&](const Candidate& one) {
        return std::find(descendants.begin(), descendants.end(), one.process) != descendants.end();
    };
    const std::string ours = mount_namespace_of("self");
    std::set<std::string> own_namespaces;
    for (auto& one : found) {
        one.proven = one.proven || one.process == record.command;
        // Not the host's, whatever namespace we are in: the session's helpers live there, as do all
        // other processes of the user.
        const bool elsewhere = !one.mount_namespace.empty() && one.mount_namespace != ours &&
                               one.mount_namespace != record.host_namespace;
        if ((one.proven || descends(one)) && elsewhere) own_namespaces.insert(one.mount_namespace);
    }
    InstanceProcesses result;
    for (const auto& one : found) {
        if (one.proven || own_namespaces.count(one.mount_namespace) != 0)
            result.inside.push_back(one.process);
        else if (descends(one))
            result.helpers.push_back(one.process);
    }
    return result;
}

bool kill_processes_of(const InstanceRecord& record, std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
        const auto inside = processes_of(record).inside;
        if (inside.empty()) return true;
        for (const auto& process : inside) signal_process(process, SIGKILL);
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(kPause);
    }
}

}  // namespace slipway::runtime
