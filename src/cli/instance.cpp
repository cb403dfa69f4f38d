// slipway instance start|list|exec|logs|stop: services in the background.
// Must not: know how an instance is remembered or supervised.
#include "slipway/runtime/instance.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>

#include "command.hpp"
#include "run_options.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"

namespace slipway::cli {
namespace {

using runtime::InstanceStatus;

void take(const CLI::App& command, const char* option, const std::string& value,
          std::optional<std::string>& into) {
    if (command.count(option) > 0) into = value;
}

struct StartOptions {
    RunFlags flags;
    runtime::InstanceStart start;
    uint16_t port = 0;
    std::string ready, log_text, timeout, stop_signal, log_size;
};

void add_start(CLI::App& parent, Action& action) {
    auto* command = parent.add_subcommand("start", "Run a command in the background, under a name");
    auto options = std::make_shared<StartOptions>();
    command->footer("slipway instance start NAME [OPTIONS] IMAGE [--] [COMMAND...]");
    command->add_option("name", options->start.name, "the instance's name")->required();
    command->add_flag("--persist", options->start.persist,
                      "live on when the session that starts it ends");
    command->add_option("--ready", options->ready,
                        "COMMAND of the shell, run inside until it succeeds: then it is ready");
    command->add_option("--ready-port", options->port, "ready when this TCP port answers");
    command->add_option("--ready-log", options->log_text, "ready when it has printed this TEXT");
    command->add_option("--ready-timeout", options->timeout,
                        "DURATION after which it has failed (default: 60s)");
    command->add_option("--stop-signal", options->stop_signal,
                        "what `stop` sends (default: the image's STOPSIGNAL, or TERM)");
    command->add_option("--log-size", options->log_size,
                        "SIZE at which its log is turned over (default: 10m)");
    add_run_options(*command, options->flags);
    command->callback([command, options, &action] {
        auto& start = options->start;
        start.run = take_run_options(*command, options->flags);
        // A name from the configuration is meant for runs; one that was typed is refused.
        if (command->count("--session") == 0) start.run.session.clear();
        take(*command, "--ready", options->ready, start.ready_command);
        take(*command, "--ready-log", options->log_text, start.ready_log);
        take(*command, "--ready-timeout", options->timeout, start.ready_timeout);
        take(*command, "--stop-signal", options->stop_signal, start.stop_signal);
        take(*command, "--log-size", options->log_size, start.log_size);
        if (command->count("--ready-port") > 0) start.ready_port = options->port;
        action = [options] {
            const InstanceStatus status = runtime::start_instance(options->start);
            log::info("instance {} {} (pid {})", status.name,
                      status.state == InstanceStatus::State::ready ? "is ready" : "has begun",
                      status.pid);
            return 0;
        };
    });
}

std::string local_time(int64_t seconds) {
    const time_t moment = seconds;
    tm parts{};
    char text[32] = "";
    if (::localtime_r(&moment, &parts) != nullptr)
        std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
}

std::string table(const std::vector<InstanceStatus>& list) {
    std::string text = fmt::format("{:<20} {:>8} {:<10} {:<20} {:<24} {}\n", "NAME", "PID", "STATE",
                                   "SINCE", "IMAGE", "LOG");
    for (const auto& one : list) {
        const Json json = runtime::to_json(one);
        text += fmt::format("{:<20} {:>8} {:<10} {:<20} {:<24} {}\n", one.name, one.pid,
                            json["state"].get<std::string>(), local_time(one.started_at), one.image,
                            one.log);
        if (!one.end.empty()) text += fmt::format("{:<20} {:>8} {}\n", "", "", one.end);
    }
    return text;
}

void add_list(CLI::App& parent, Action& action) {
    auto* command =
        parent.add_subcommand("list", "Show what lives, and once what has ended, on this host");
    auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "as JSON");
    command->callback([json, &action] {
        action = [json] {
            const auto list = runtime::list_instances();
            Json all = Json::array();
            for (const auto& one : list) all.push_back(runtime::to_json(one));
            print(*json ? to_text(all, 2) + "\n" : table(list));
            return 0;
        };
    });
}

struct ExecOptions {
    runtime::InstanceExec request;
    std::string directory;
};

void add_exec(CLI::App& parent, Action& action) {
    auto* command = parent.add_subcommand("exec", "Run a command in an instance's container");
    auto options = std::make_shared<ExecOptions>();
    command->prefix_command();
    command->footer("slipway instance exec [OPTIONS] NAME [--] COMMAND...");
    command
        ->add_option("-e,--env", options->request.env,
                     "KEY=VALUE, or KEY for the caller's value, beside the instance's environment")
        ->allow_extra_args(false);
    command->add_option("-c,--cd,--workdir", options->directory,
                        "initial directory inside (default: the instance's)");
    command->callback([command, options, &action] {
        const auto words = command->remaining();
        if (!words.empty() && words[0].size() > 1 && words[0][0] == '-')
            throw Error(ErrorKind::usage, "unknown option " + slipway::quoted(words[0]))
                .hint("slipway instance exec --help");
        const size_t first = words.size() > 1 && words[1] == "--" ? 2 : 1;
        if (words.size() <= first)
            throw Error(ErrorKind::usage,
                        words.empty() ? "no instance was named" : "no command was named")
                .hint("slipway instance exec NAME COMMAND");
        options->request.name = words[0];
        options->request.command.assign(words.begin() + static_cast<std::ptrdiff_t>(first),
                                        words.end());
        take(*command, "--cd", options->directory, options->request.directory);
        action = [options]() -> int { runtime::exec_in_instance(options->request); };
    });
}

struct LogsOptions {
    std::string name;
    bool follow = false;
    uint64_t tail = 0;
};

void add_logs(CLI::App& parent, Action& action) {
    auto* command = parent.add_subcommand("logs", "Print what an instance has printed");
    auto options = std::make_shared<LogsOptions>();
    command->add_option("name", options->name, "the instance, also one that has ended")->required();
    command->add_flag("-f,--follow", options->follow, "go on until the instance ends");
    command->add_option("-n,--tail", options->tail, "begin with the last N lines");
    command->callback([command, options, &action] {
        const bool cut = command->count("--tail") > 0;
        action = [options, cut] {
            runtime::print_instance_log(
                options->name, cut ? std::optional(options->tail) : std::nullopt, options->follow);
            return 0;
        };
    });
}

struct StopOptions {
    std::vector<std::string> names;
    bool all = false;
    std::string signal, time;
    runtime::InstanceStop stop;
};

int stop(StopOptions& options) {
    if (options.all == !options.names.empty())
        throw Error(ErrorKind::usage,
                    options.all ? "--all and names exclude each other" : "no instance was named")
            .hint("slipway instance stop NAME, or slipway instance stop --all");
    if (options.all)
        for (const auto& one : runtime::list_instances())
            if (one.state != InstanceStatus::State::ended) options.names.push_back(one.name);
    for (const auto& name : options.names) {
        runtime::stop_instance(name, options.stop);
        log::info("stopped {}", name);
    }
    return 0;
}

void add_stop(CLI::App& parent, Action& action) {
    auto* command = parent.add_subcommand("stop", "End instances and all that runs in them");
    auto options = std::make_shared<StopOptions>();
    command->add_option("names", options->names, "the instances");
    command->add_flag("--all", options->all, "every instance of this user on this host");
    command->add_option("--signal", options->signal,
                        "to the command first (default: as start found)");
    command->add_option("--time", options->time,
                        "DURATION before everything in its container is killed (default: 10s)");
    command->callback([command, options, &action] {
        take(*command, "--signal", options->signal, options->stop.signal);
        take(*command, "--time", options->time, options->stop.time);
        action = [options] { return stop(*options); };
    });
}

}  // namespace

void add_instance(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("instance", "Services in the background");
    command->require_subcommand(1);
    add_start(*command, action);
    add_list(*command, action);
    add_exec(*command, action);
    add_logs(*command, action);
    add_stop(*command, action);
}

}  // namespace slipway::cli
