// Probes the host for a run: who we are, what is there, who started us.
// Must not: decide anything.
#include "host_facts.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "default_binds.hpp"
#include "launcher.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/users.hpp"

namespace slipway::runtime {

namespace {

/// What tells our mount namespace, and with it our root, from others. The root's mount has an
/// identity that no other namespace's has; /proc would tell the same, but takes its time. User
/// namespaces need no mark: who cannot enter the session's makes a private container.
std::string place_of_caller() {
    if (const auto id = sys::mount_id("/")) return fmt::format("root {}", *id);
    try {
        return sys::readlinkat(AT_FDCWD, "/proc/self/ns/mnt");
    } catch (const SysError&) {
        return "unknown";
    }
}

std::string link_target(const char* path) {
    try {
        return sys::readlinkat(AT_FDCWD, path);
    } catch (const SysError&) {
        return {};
    }
}

/// A name that every tool takes for one; no number, and not root's.
bool is_user_name(const std::string& name) {
    constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    return !name.empty() && name.size() <= 32 && name != "root" &&
           kFirst.find(name[0]) != std::string_view::npos &&
           name.find_first_of(":/\n \t") == std::string::npos;
}

/// Where no name service of this node knows the user, a launcher may have handed over the name.
void complete_user(HostFacts& facts) {
    const auto variable = [&](const char* name) {
        const auto found = facts.environment.find(name);
        return found == facts.environment.end() ? std::string() : found->second;
    };
    for (const char* name : {"USER", "LOGNAME"})
        if (facts.user_name.empty() && is_user_name(variable(name)))
            facts.user_name = variable(name);
    if (facts.shell.empty()) facts.shell = variable("SHELL");
    if (!facts.shell.starts_with('/') || facts.shell.find_first_of(":\n") != std::string::npos)
        facts.shell.clear();
}

/// The zone's name by the link that /etc/localtime is on every distribution.
std::string read_time_zone() {
    constexpr std::string_view kDatabase = "/zoneinfo/";
    const std::string target = link_target("/etc/localtime");
    const size_t at = target.rfind(kDatabase);
    if (at == std::string::npos) return {};
    const std::string zone = target.substr(at + kDatabase.size());
    return zone == "UTC" || zone == "Etc/UTC" ? "" : zone;
}

std::string read_hosts() {
    try {
        std::string text = read_file("/etc/hosts");
        if (!text.empty() && !text.ends_with('\n')) text += '\n';
        return text;
    } catch (const Error&) {
        return "127.0.0.1 localhost\n";
    }
}

}  // namespace

std::map<std::string, std::string> read_environment() {
    std::map<std::string, std::string> environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const size_t equals = text.find('=');
        if (equals != std::string_view::npos && equals > 0)
            environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

HostFacts probe_host(const RunSpec& spec) {
    HostFacts facts;
    facts.uid = ::geteuid();
    facts.gid = ::getegid();
    if (const auto user = find_user(facts.uid)) {
        facts.user_name = user->name;
        facts.shell = user->shell;
    }
    facts.group_name = find_group(facts.gid).value_or("");
    facts.home = home_directory();
    facts.environment = read_environment();
    complete_user(facts);
    if (facts.environment.count("TZ") == 0) facts.time_zone = read_time_zone();
    if (!spec.identity.hostname.empty()) facts.hosts_file = read_hosts();
    for (const auto& row : default_binds())
        if (sys::stat_if_exists(AT_FDCWD, row.path)) facts.present.insert(row.path);
    for (const auto& bind : spec.mounts.binds)
        if (sys::stat_if_exists(AT_FDCWD, bind.source)) facts.present.insert(bind.source);
    if (spec.mounts.home && sys::stat_if_exists(AT_FDCWD, facts.home))
        facts.present.insert(facts.home);
    for (const auto& data : spec.mounts.data)
        if (const auto file = probe_file(data.source)) facts.files.emplace(data.source, *file);
    if (spec.mounts.stage) facts.stage_places = probe_stage_places(*spec.mounts.stage);
    try {
        facts.working_directory = absolute_path(".");
    } catch (const Error&) {  // it was deleted; who needs a name for it is told then
        facts.working_directory = ".";
    }
    facts.namespaces = place_of_caller();
    facts.launcher = find_launcher(facts.environment, ::getppid(), read_process);
    return facts;
}

}  // namespace slipway::runtime
