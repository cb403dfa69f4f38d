// Keeps what is known of instances in files of this host's and boot's own.
// Must not: signal anything, or believe that a pid in a file is alive.
#include "instance_state.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

constexpr const char* kRecordFile = "instance.json";
constexpr auto kLockTimeout = std::chrono::seconds(20);
constexpr size_t kMaxName = 64;

std::string first_line(const char* path) {
    try {
        const std::string text = read_file(path);
        return text.substr(0, text.find('\n'));
    } catch (const Error&) {
        return "";
    }
}

std::string host_name() {
    char name[256] = "";
    if (::gethostname(name, sizeof name - 1) != 0) return "localhost";
    return name;
}

/// Pids count within one boot of one host, and within one pid namespace.
std::string where_pids_count() {
    std::string pid_namespace;
    try {
        pid_namespace = sys::readlinkat(AT_FDCWD, "/proc/self/ns/pid");
    } catch (const SysError&) {
    }
    return sha256(first_line("/proc/sys/kernel/random/boot_id") + pid_namespace)
        .hex()
        .substr(0, 12);
}

std::string base_directory() {
    if (const char* own = std::getenv("SLIPWAY_INSTANCES"); own != nullptr && own[0] == '/')
        return own;
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/')
        return join_path(state, "slipway/instances");
    return join_path(home_directory(), ".local/state/slipway/instances");
}

Json to_json(const ProcessIdentity& process) {
    return {{"pid", process.pid}, {"start_time", process.start_time}};
}

ProcessIdentity process_from(const Json& json) {
    return {json.at("pid").get<pid_t>(), json.at("start_time").get<std::string>()};
}

Json to_json(const InstanceRecord& record) {
    Json json = {{"name", record.name},
                 {"id", record.id},
                 {"supervisor", to_json(record.supervisor)},
                 {"host_namespace", record.host_namespace},
                 {"command", to_json(record.command)},
                 {"entered", record.entered},
                 {"starter", to_json(record.starter)},
                 {"accepted", record.accepted},
                 {"image", record.image},
                 {"argv", record.argv},
                 {"environment", record.environment},
                 {"working_directory", record.working_directory},
                 {"fake_root_calls", record.fake_root_calls},
                 {"persist", record.persist},
                 {"awaits_ready", record.awaits_ready},
                 {"ready", record.ready},
                 {"stop_signal", record.stop_signal},
                 {"started_at", record.started_at},
                 {"end", record.end}};
    if (record.exit_status) json["exit_status"] = *record.exit_status;
    return json;
}

InstanceRecord record_from(const Json& json) {
    InstanceRecord record;
    record.name = json.at("name");
    record.id = json.at("id");
    record.supervisor = process_from(json.at("supervisor"));
    record.host_namespace = json.at("host_namespace");
    record.command = process_from(json.at("command"));
    record.entered = json.at("entered");
    record.starter = process_from(json.at("starter"));
    record.accepted = json.at("accepted");
    record.image = json.at("image");
    record.argv = json.at("argv").get<std::vector<std::string>>();
    record.environment = json.at("environment").get<std::vector<std::string>>();
    record.working_directory = json.at("working_directory");
    record.fake_root_calls = json.at("fake_root_calls");
    record.persist = json.at("persist");
    record.awaits_ready = json.at("awaits_ready");
    record.ready = json.at("ready");
    record.stop_signal = json.at("stop_signal");
    record.started_at = json.at("started_at");
    record.end = json.at("end");
    if (json.contains("exit_status")) record.exit_status = json.at("exit_status").get<int>();
    return record;
}

void rename_if_there(int dir, const std::string& from, const std::string& to) {
    if (sys::stat_if_exists(dir, from, AT_SYMLINK_NOFOLLOW)) sys::renameat(dir, from, dir, to);
}

void remove_if_there(int dir, const std::string& name) {
    if (sys::stat_if_exists(dir, name, AT_SYMLINK_NOFOLLOW)) sys::unlinkat(dir, name);
}

}  // namespace

InstanceDirectory InstanceDirectory::open() {
    InstanceDirectory directory;
    directory.path_ = join_path(base_directory(), host_name() + "-" + where_pids_count());
    return directory;
}

InstanceDirectory InstanceDirectory::make() {
    InstanceDirectory directory = open();
    try {
        sys::make_directories(directory.path_, 0700);
    } catch (SysError& error) {
        throw error.note("instances are remembered there")
            .hint("set SLIPWAY_INSTANCES to a directory of your own");
    }
    return directory;
}

std::string InstanceDirectory::log_path(const std::string& name) const {
    return join_path(join_path(path_, name), "log");
}

std::vector<std::string> InstanceDirectory::names() const {
    std::vector<std::string> found;
    const auto dir = sys::openat_if_exists(AT_FDCWD, path_, O_RDONLY | O_DIRECTORY);
    if (!dir) return found;
    for (const auto& name : sys::list_directory(dir->get(), path_))
        if (sys::stat_if_exists(dir->get(), name + "/" + kRecordFile)) found.push_back(name);
    return found;
}

std::optional<InstanceRecord> InstanceDirectory::read(const std::string& name) const {
    const std::string file = join_path(join_path(path_, name), kRecordFile);
    if (!sys::stat_if_exists(AT_FDCWD, file)) return std::nullopt;
    try {
        return record_from(Json::parse(read_file(file)));
    } catch (const Json::exception& error) {
        log::warning("cannot understand {}: {}", slipway::quoted(file), error.what());
    } catch (const SysError& error) {  // removed meanwhile
        if (error.errno_value() != ENOENT) throw;
    }
    return std::nullopt;
}

void InstanceDirectory::write(const InstanceRecord& record) const {
    write_file_atomic(join_path(join_path(path_, record.name), kRecordFile),
                      to_text(to_json(record), 1) + "\n", 0600);
}

void InstanceDirectory::remove(const InstanceRecord& record) const {
    const FileLock held = lock();
    const auto now = read(record.name);
    if (now && now->id != record.id) return;
    const UniqueFd dir = sys::open(join_path(path_, record.name), O_RDONLY | O_DIRECTORY);
    remove_if_there(dir.get(), kRecordFile);
}

void InstanceDirectory::prepare(const std::string& name) const {
    const std::string own = join_path(path_, name);
    sys::make_directories(own, 0700);
    const UniqueFd dir = sys::open(own, O_RDONLY | O_DIRECTORY);
    remove_if_there(dir.get(), "log.1");
    rename_if_there(dir.get(), "log", "log.previous");
}

FileLock InstanceDirectory::lock() const {
    return FileLock(join_path(path_, ".lock"), FileLock::Mode::exclusive, kLockTimeout);
}

void check_instance_name(const std::string& name) {
    const auto is_word = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    bool good = !name.empty() && name.size() <= kMaxName && is_word(name[0]);
    for (const char c : name) good = good && (is_word(c) || c == '.' || c == '_' || c == '-');
    if (!good)
        throw Error(ErrorKind::usage,
                    fmt::format("{} cannot be an instance's name", slipway::quoted(name)))
            .hint(
                "choose up to 64 letters, digits, \".\", \"_\" and \"-\", a letter or digit first");
}

int parse_signal(const std::string& text, const std::string& origin) {
    char* end = nullptr;
    const long number = std::strtol(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0' && number > 0 && number <= SIGRTMAX)
        return static_cast<int>(number);
    const std::string name = text.starts_with("SIG") ? text.substr(3) : text;
    for (int signal = 1; signal < SIGRTMIN; ++signal)
        if (const char* known = sigabbrev_np(signal); known != nullptr && name == known)
            return signal;
    for (const auto& [word, base, sign] :
         {std::tuple{"RTMIN", SIGRTMIN, 1}, std::tuple{"RTMAX", SIGRTMAX, -1}}) {
        if (!name.starts_with(word)) continue;
        const std::string offset = name.substr(5);
        if (offset.empty()) return base;
        const long distance = std::strtol(offset.c_str(), &end, 10) * sign;
        if (*end == '\0' && distance >= 0 && distance <= SIGRTMAX - SIGRTMIN)
            return base + sign * static_cast<int>(distance);
    }
    throw Error(ErrorKind::usage, fmt::format("there is no signal {}", slipway::quoted(text)))
        .note("requested by: " + origin)
        .hint("write a name as \"TERM\" or \"SIGINT\", or a number");
}

}  // namespace slipway::runtime
