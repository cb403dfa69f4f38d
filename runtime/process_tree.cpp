// Finds descendants in /proc, and sends signals through descriptors whose owner was checked.
// Must not: signal a number that was only read somewhere.
#include "process_tree.hpp"

#include <cstdlib>
#include <map>
#include <set>

#include "slipway/base/error.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

namespace {

bool has_ended(const ProcessFacts& process) { return process.state == 'Z' || process.state == 'X'; }

}  // namespace

std::optional<ProcessIdentity> identify(pid_t pid) {
    const auto facts = read_process(pid);
    if (!facts) return std::nullopt;
    return ProcessIdentity{pid, facts->start_time};
}

std::optional<UniqueFd> open_process(const ProcessIdentity& process) {
    if (process.pid <= 0) return std::nullopt;
    auto opened = sys::pidfd_open_if_exists(process.pid);
    if (!opened) return std::nullopt;
    // The descriptor keeps its process from now on: if the number still means the same one after
    // it was opened, the descriptor is that one's.
    const auto facts = read_process(process.pid);
    if (!facts || has_ended(*facts) || facts->start_time != process.start_time) return std::nullopt;
    return opened;
}

bool is_alive(const ProcessIdentity& process) {
    const auto opened = open_process(process);
    return opened && !sys::wait_process_end(opened->get(), 0);
}

bool signal_process(const ProcessIdentity& process, int signal) {
    const auto opened = open_process(process);
    return opened && sys::try_signal(opened->get(), signal);
}

std::vector<ProcessIdentity> descendants_of(pid_t root) {
    std::map<pid_t, std::vector<pid_t>> children;
    std::map<pid_t, ProcessFacts> all;
    const UniqueFd proc = sys::open("/proc", O_RDONLY | O_DIRECTORY);
    for (const auto& name : sys::list_directory(proc.get(), "/proc")) {
        if (name[0] < '0' || name[0] > '9') continue;
        const pid_t pid = std::atoi(name.c_str());
        auto facts = read_process(pid);
        if (!facts) continue;
        children[facts->parent].push_back(pid);
        all.emplace(pid, std::move(*facts));
    }
    std::vector<ProcessIdentity> found;
    std::set<pid_t> seen{root};
    for (std::vector<pid_t> open{root}; !open.empty();) {
        const pid_t parent = open.back();
        open.pop_back();
        for (const pid_t pid : children[parent]) {
            if (!seen.insert(pid).second) continue;
            open.push_back(pid);
            const ProcessFacts& facts = all.at(pid);
            if (!has_ended(facts)) found.push_back({pid, facts.start_time});
        }
    }
    return found;
}

}  // namespace slipway::runtime
