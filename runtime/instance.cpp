// Starting, listing and stopping instances.
// Must not: run anything in an instance itself; its supervisor does.
#include "slipway/runtime/instance.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <span>
#include <thread>

#include "instance_exec.hpp"
#include "instance_log.hpp"
#include "instance_ready.hpp"
#include "instance_state.hpp"
#include "instance_supervisor.hpp"
#include "run_spec.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"
#include "stage.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kLogLimit = 10u << 20;
constexpr uint64_t kReadyTimeoutMs = 60'000;
constexpr uint64_t kStopTimeMs = 10'000;
constexpr auto kKillLimit = std::chrono::seconds(10);
constexpr auto kSupervisorLimit = std::chrono::seconds(15);
constexpr size_t kMaxNews = 64 << 10;
constexpr uint64_t kTailLines = 20;

std::string random_id() {
    unsigned char bytes[16];
    if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        throw SysError("cannot get random numbers", "getrandom");
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

uint64_t parse_size(const std::string& text, const std::string& origin) {
    char* end = nullptr;
    const unsigned long long number = std::strtoull(text.c_str(), &end, 10);
    const std::string_view unit = end;
    const bool begins = !text.empty() && text[0] >= '0' && text[0] <= '9';
    const int shift = unit.empty()  ? 0
                      : unit == "k" ? 10
                      : unit == "m" ? 20
                      : unit == "g" ? 30
                                    : -1;
    if (!begins || shift < 0 || number == 0 || number > (1ULL << 33))
        throw Error(ErrorKind::usage,
                    fmt::format("cannot understand the size {}", slipway::quoted(text)))
            .note("requested by: " + origin)
            .hint("write a number of bytes, or a number with k, m or g after it");
    return number << shift;
}

/// What runs a job's processes on a node: its child is the job's script, or the step's task.
bool runs_jobs(const std::string& name) {
    constexpr const char* kNames[] = {"slurmstepd", "pbs_mom", "sge_shepherd", "res"};
    return std::any_of(std::begin(kNames), std::end(kNames),
                       [&](const char* known) { return name == known; });
}

/// The process with which an instance ends unless it persists: the leader of our session (the login
/// shell), or the script of the job if that is nearer; who started us, if we lead ourselves.
UniqueFd watched_process() {
    const pid_t leader = ::getsid(0);
    pid_t process = ::getppid();
    while (leader != ::getpid() && process > 1 && process != leader) {
        const auto facts = read_process(process);
        const auto above = facts ? read_process(facts->parent) : std::nullopt;
        if (above && runs_jobs(above->name)) break;
        process = facts ? facts->parent : leader;
    }
    if (process <= 1) process = leader;
    if (process <= 1 || process == ::getpid()) return {};
    auto opened = sys::pidfd_open_if_exists(process);
    return opened ? std::move(*opened) : UniqueFd();
}

int stop_signal_of(const InstanceStart& start) {
    if (start.stop_signal) return parse_signal(*start.stop_signal, "--stop-signal");
    const auto image =
        image::make_runnable(image::parse_image_ref(start.run.image), start.run.store);
    const std::string& named = image.config.stop_signal;
    return named.empty() ? SIGTERM : parse_signal(named, "the image's STOPSIGNAL");
}

SupervisorJob plan_instance(const InstanceStart& start) {
    if (!start.run.session.empty())
        throw Error(ErrorKind::conflict, "an instance has a session of its own")
            .note("requested by: --session")
            .hint(fmt::format("leave --session out; enter with: slipway instance exec {} COMMAND",
                              start.name));
    SupervisorJob job;
    InstanceRecord& record = job.record;
    record.name = start.name;
    record.id = random_id();
    record.starter = identify(::getpid()).value_or(ProcessIdentity{});
    RunOptions options = start.run;
    options.session = "instance-" + start.name + "-" + record.id;
    options.detach_on_kill = false;
    options.linger.reset();
    job.plan = plan(options);
    stage_files(job.plan);
    job.plan.environment.push_back(std::string(kInstanceIdVariable) + "=" + record.id);
    std::sort(job.plan.environment.begin(), job.plan.environment.end());
    record.image = start.run.image;
    record.argv = job.plan.argv;
    record.environment = job.plan.environment;
    record.working_directory = job.plan.working_directory;
    record.fake_root_calls = job.plan.fake_root_calls;
    record.persist = start.persist;
    record.awaits_ready = awaits_ready(start);
    record.stop_signal = stop_signal_of(start);
    record.started_at = ::time(nullptr);
    job.log_limit_bytes = start.log_size ? parse_size(*start.log_size, "--log-size") : kLogLimit;
    if (!start.persist) job.watched = watched_process();
    return job;
}

struct News {
    InstanceNews kind = InstanceNews::ended;
    std::string text;
};

/// The next message of the supervisor; an end without one is the supervisor's own.
News next_news(int channel) {
    std::string text(kMaxNews, '\0');
    ssize_t size = 0;
    while ((size = ::recv(channel, text.data(), text.size(), 0)) < 0 && errno == EINTR) continue;
    if (size <= 0) return {InstanceNews::ended, "its supervisor was killed"};
    return {static_cast<InstanceNews>(text[0]), text.substr(1, static_cast<size_t>(size) - 1)};
}

/// Start the supervisor, which is nobody's child, and wait for its record.
void start_supervisor(SupervisorJob& job, const UniqueFd& channel) {
    const pid_t middle = ::fork();
    if (middle < 0)
        throw SysError("cannot start the instance's supervisor", "fork")
            .hint("raise the limit on processes (ulimit -u)");
    if (middle == 0) {
        const pid_t pid = ::fork();
        if (pid == 0) supervise_instance(std::move(job));
        ::_exit(pid < 0 ? 1 : 0);
    }
    while (::waitpid(middle, nullptr, 0) < 0 && errno == EINTR) continue;
    job.channel.reset();
    const News news = next_news(channel.get());
    if (news.kind == InstanceNews::failed) throw parse_error(news.text);
    if (news.kind != InstanceNews::born)
        throw Error(ErrorKind::host_forbids, "cannot start the instance's supervisor")
            .hint("raise the limit on processes (ulimit -u)");
    job.record.supervisor = identify(std::stoi(news.text)).value_or(ProcessIdentity{});
}

/// Kill what is left of an instance whose supervisor has ended, and forget it.
void clean(const InstanceDirectory& directory, const InstanceRecord& record) {
    if (!kill_processes_of(record, kKillLimit))
        log::warning("processes of the instance {} cannot be killed", record.name);
    directory.remove(record);
}

/// Wait until the supervisor has ended; kill it when it does not.
void end_supervisor(const InstanceRecord& record) {
    const auto supervisor = open_process(record.supervisor);
    if (!supervisor) return;
    if (sys::wait_process_end(supervisor->get(),
                              static_cast<int>(milliseconds(kSupervisorLimit).count())))
        return;
    sys::try_signal(supervisor->get(), SIGKILL);
    sys::wait_process_end(supervisor->get(), -1);
}

[[noreturn]] void fail_start(const InstanceDirectory& directory, const SupervisorJob& job,
                             Error error) {
    end_supervisor(job.record);
    clean(directory, job.record);
    const std::string tail = last_lines(read_log(directory.log_path(job.record.name)), kTailLines);
    if (!tail.empty()) error.note("the end of its log:");
    for (size_t at = 0; at < tail.size();) {
        const size_t line = std::min(tail.find('\n', at), tail.size());
        error.note("  " + tail.substr(at, line - at));
        at = line + 1;
    }
    throw error;
}

void await_start(const InstanceDirectory& directory, const InstanceStart& start,
                 const SupervisorJob& job, UniqueFd channel, uint64_t ready_timeout_ms) {
    const auto deadline = Clock::now() + milliseconds(ready_timeout_ms);
    const std::string& name = job.record.name;
    News news = next_news(channel.get());
    if (news.kind == InstanceNews::started) {
        const auto record = directory.read(name).value_or(job.record);
        ReadyOutcome outcome = ReadyOutcome::ready;
        try {
            outcome =
                wait_until_ready(start, record, directory.log_path(name), channel.get(), deadline);
        } catch (const Error& error) {
            channel.reset();
            fail_start(directory, job, error);
        }
        if (outcome == ReadyOutcome::timed_out) {
            channel.reset();  // the supervisor ends the instance
            fail_start(directory, job,
                       Error(ErrorKind::command_failed,
                             fmt::format("the instance {} was not ready within {} s",
                                         slipway::quoted(name),
                                         static_cast<double>(ready_timeout_ms) / 1000))
                           .hint("give it more time with --ready-timeout"));
        }
        if (outcome == ReadyOutcome::ready) {
            (void)!::send(channel.get(), &kInstanceAccepted, 1, MSG_NOSIGNAL);
            news = next_news(channel.get());
            if (news.kind == InstanceNews::ready) return;
        } else {
            news = next_news(channel.get());
        }
    }
    channel.reset();
    if (news.kind == InstanceNews::failed) fail_start(directory, job, parse_error(news.text));
    fail_start(directory, job,
               Error(ErrorKind::command_failed,
                     fmt::format("the instance {} ended before it was ready: {}",
                                 slipway::quoted(name), news.text)));
}

InstanceStatus status_of(const InstanceDirectory& directory, const InstanceRecord& record) {
    InstanceStatus status;
    status.name = record.name;
    status.pid = record.command.pid;
    status.image = record.image;
    status.command = record.argv;
    status.started_at = record.started_at;
    status.persist = record.persist;
    status.log = directory.log_path(record.name);
    using State = InstanceStatus::State;
    if (!is_alive(record.supervisor)) {
        status.state = State::ended;
        status.end = record.end.empty() ? "its supervisor was killed" : record.end;
        status.exit_status = record.exit_status;
    } else if (record.entered) {
        status.state = !record.awaits_ready ? State::running
                       : record.ready       ? State::ready
                                            : State::starting;
    }
    return status;
}

}  // namespace

InstanceStatus start_instance(const InstanceStart& start) {
    check_instance_name(start.name);
    const uint64_t ready_timeout_ms =
        start.ready_timeout ? parse_duration_ms(*start.ready_timeout, "--ready-timeout")
                            : kReadyTimeoutMs;
    SupervisorJob job = plan_instance(start);
    job.directory = InstanceDirectory::make();
    UniqueFd channel;
    {
        const FileLock held = job.directory.lock();
        const auto before = job.directory.read(start.name);
        // One whose starter was killed is on its way out.
        if (before && !before->accepted && !is_alive(before->starter)) end_supervisor(*before);
        if (before && is_alive(before->supervisor))
            throw Error(ErrorKind::already_exists, fmt::format("the instance {} is there already",
                                                               slipway::quoted(start.name)))
                .note(fmt::format("it runs {}", before->image))
                .hint("stop it, or choose another name: slipway instance stop " + start.name);
        if (before) kill_processes_of(*before, kKillLimit);
        check_ready_request(start);
        job.directory.prepare(start.name);
        auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
        channel = std::move(ours);
        job.channel = std::move(theirs);
        start_supervisor(job, channel);
    }
    await_start(job.directory, start, job, std::move(channel), ready_timeout_ms);
    const auto record = job.directory.read(start.name);
    return status_of(job.directory, record.value_or(job.record));
}

std::vector<InstanceStatus> list_instances() {
    const auto directory = InstanceDirectory::open();
    std::vector<InstanceStatus> found;
    for (const auto& name : directory.names()) {
        const auto record = directory.read(name);
        if (!record) continue;
        found.push_back(status_of(directory, *record));
        if (found.back().state == InstanceStatus::State::ended) clean(directory, *record);
    }
    return found;
}

void stop_instance(const std::string& name, const InstanceStop& request) {
    check_instance_name(name);
    const uint64_t time_ms =
        request.time ? parse_duration_ms(*request.time, "--time") : kStopTimeMs;
    const auto directory = InstanceDirectory::open();
    const auto record = directory.read(name);
    if (!record)
        throw Error(ErrorKind::not_found,
                    fmt::format("there is no instance {} on this host", slipway::quoted(name)))
            .hint("slipway instance list");
    const int signal =
        request.signal ? parse_signal(*request.signal, "--signal") : record->stop_signal;
    if (const auto supervisor = open_process(record->supervisor)) {
        if (record->entered) {
            signal_process(record->command, signal);
            signal_process(record->command, SIGCONT);
        } else {
            signal_process(record->supervisor, SIGTERM);  // it gives up the start
        }
        if (!sys::wait_process_end(supervisor->get(), static_cast<int>(time_ms)))
            kill_processes_of(*record, kKillLimit);
        end_supervisor(*record);
    }
    clean(directory, *record);
}

void print_instance_log(const std::string& name, std::optional<uint64_t> tail, bool follow) {
    check_instance_name(name);
    const auto directory = InstanceDirectory::open();
    const std::string path = directory.log_path(name);
    if (!sys::stat_if_exists(AT_FDCWD, path))
        throw Error(
            ErrorKind::not_found,
            fmt::format("there is no log of an instance {} on this host", slipway::quoted(name)))
            .hint("slipway instance list");
    const auto print = [](const std::string& text) {
        sys::write_all(STDOUT_FILENO, text.data(), text.size(), "standard output");
    };
    const auto record = directory.read(name);
    LogReader reader(path);
    std::string before;
    if (const auto old = sys::openat_if_exists(AT_FDCWD, path + ".1", O_RDONLY))
        before = read_all(old->get(), path, UINT64_MAX);
    before += reader.read_new();
    print(tail ? last_lines(before, *tail) : before);
    while (follow && record) {
        const bool alive = is_alive(record->supervisor);  // asked before the last of it is read
        print(reader.read_new());
        if (!alive) return;
        std::this_thread::sleep_for(milliseconds(100));
    }
}

Json to_json(const InstanceStatus& status) {
    constexpr const char* kStates[] = {"starting", "running", "ready", "ended"};
    Json json = {{"name", status.name},       {"state", kStates[static_cast<int>(status.state)]},
                 {"pid", status.pid},         {"image", status.image},
                 {"command", status.command}, {"started_at", status.started_at},
                 {"persist", status.persist}, {"log", status.log}};
    if (status.state == InstanceStatus::State::ended) json["end"] = status.end;
    if (status.exit_status) json["exit_status"] = *status.exit_status;
    return json;
}

}  // namespace slipway::runtime
