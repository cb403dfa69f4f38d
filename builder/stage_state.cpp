// What one stage knows while it is planned: variables, and the image's configuration so far.
// Must not: make steps or ask about the world.
#include "stage_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

void insert_sorted(std::vector<std::string>& list, const std::string& item) {
    const auto at = std::lower_bound(list.begin(), list.end(), item);
    if (at == list.end() || *at != item) list.insert(at, item);
}

/// "80", "80/udp", "8000-8002/tcp", "127.0.0.1:8080:80" -> "80/tcp", ...
std::vector<std::string> ports_of(const std::string& text) {
    std::string spec = text.substr(text.rfind(':') == std::string::npos ? 0 : text.rfind(':') + 1);
    const size_t slash = spec.find('/');
    const std::string protocol =
        slash == std::string::npos ? "tcp" : to_lower(spec.substr(slash + 1));
    spec = spec.substr(0, slash);
    const auto number = [&](const std::string& digits) -> int {
        const bool valid = !digits.empty() && digits.size() <= 5 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
        const int port = valid ? std::stoi(digits) : -1;
        if (port < 0 || port > 65535)
            throw Error(ErrorKind::invalid_recipe,
                        fmt::format("{} is no port; write EXPOSE 80, 80/udp or 8000-8010", text));
        return port;
    };
    if (protocol != "tcp" && protocol != "udp" && protocol != "sctp")
        throw Error(ErrorKind::invalid_recipe,
                    fmt::format("{}: the protocol of a port is tcp, udp or sctp", text));
    const size_t dash = spec.find('-');
    const int first = number(spec.substr(0, dash));
    const int last = dash == std::string::npos ? first : number(spec.substr(dash + 1));
    if (last < first)
        throw Error(ErrorKind::invalid_recipe,
                    fmt::format("{}: the range ends before it begins", text));
    std::vector<std::string> ports;
    for (int port = first; port <= last; ++port)
        ports.push_back(fmt::format("{}/{}", port, protocol));
    return ports;
}

}  // namespace

Variables platform_arguments(const std::string& platform, const std::string& target_stage) {
    const auto parts = split(platform, '/');
    const std::string os = parts[0], arch = parts.size() > 1 ? parts[1] : "";
    const std::string variant = parts.size() > 2 ? parts[2] : "";
    Variables arguments;
    for (const char* prefix : {"BUILD", "TARGET"}) {
        const std::string name = prefix;
        arguments[name + "PLATFORM"] = platform;
        arguments[name + "OS"] = os;
        arguments[name + "OSVERSION"] = "";
        arguments[name + "ARCH"] = arch;
        arguments[name + "VARIANT"] = variant;
    }
    arguments["TARGETSTAGE"] = target_stage.empty() ? "default" : target_stage;
    return arguments;
}

bool is_proxy_argument(const std::string& name) {
    static const std::set<std::string> kNames = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY",
                                                 "NO_PROXY", "ALL_PROXY"};
    return kNames.count(name) != 0 || (name == to_lower(name) && kNames.count(to_upper(name)) != 0);
}

StageState::StageState(image::ImageConfig base, char escape, GlobalVariables& globals)
    : config(std::move(base)), escape_(escape), globals_(globals) {}

Variables StageState::variables() const {
    Variables result;
    for (const auto& [name, value] : args_) result[name] = value;
    for (const std::string& entry : config.env) {
        const size_t equals = entry.find('=');
        result[entry.substr(0, equals)] =
            equals == std::string::npos ? "" : entry.substr(equals + 1);
    }
    return result;
}

std::string StageState::expand_word(const std::string& word) const {
    ExpandOptions options;
    options.escape = escape_;
    return expand(word, variables(), options).text;
}

std::vector<std::string> StageState::expand_words(const std::string& text) const {
    ExpandOptions options;
    options.escape = escape_;
    return expand(text, variables(), options).words;
}

std::string StageState::expand_body(const std::string& body) const {
    ExpandOptions options;
    options.quotes_are_text = true;
    return expand(body, variables(), options).text;
}

std::vector<std::string> StageState::run_environment() const {
    std::vector<std::string> environment = config.env;
    const auto has = [&](const std::string& name) {
        return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
            return starts_with(entry, name + "=");
        });
    };
    if (!has("PATH")) environment.push_back(fmt::format("PATH={}", kDefaultPath));
    for (auto it = args_.rbegin(); it != args_.rend(); ++it)
        if (!has(it->first)) environment.push_back(it->first + "=" + it->second);
    return environment;
}

std::vector<std::string> StageState::shell_command(const CommandLine& command) const {
    if (!command.use_shell || command.words.empty()) return command.words;
    std::vector<std::string> words = config.shell;
    if (words.empty()) words = {"/bin/sh", "-c"};
    words.push_back(join(command.words, " "));
    return words;
}

std::string StageState::absolute(const std::string& path) const {
    const std::string base = config.working_dir.empty() ? "/" : config.working_dir;
    return lexically_normal(starts_with(path, "/") ? path : base + "/" + path);
}

void StageState::apply_env(const Env& env) {
    Pairs expanded;
    for (const auto& [name, value] : env.pairs)
        expanded.emplace_back(expand_word(name), expand_word(value));
    for (const auto& [name, value] : expanded) config.set_env(name, value);
}

void StageState::apply_label(const Label& label) {
    Pairs expanded;
    for (const auto& [name, value] : label.pairs)
        expanded.emplace_back(expand_word(name), expand_word(value));
    for (const auto& [name, value] : expanded) config.labels[name] = value;
}

void StageState::apply_arg(const Arg& arg) {
    Pairs defined;
    for (const auto& [raw_name, default_value] : arg.definitions) {
        const std::string name = expand_word(raw_name);
        std::optional<std::string> value;
        if (default_value) value = expand_word(*default_value);
        const auto given = globals_.build_args.find(name);
        const auto global = globals_.globals.find(name);
        if (given != globals_.build_args.end()) {
            value = given->second;
            globals_.used.insert(name);
        } else if (!value && global != globals_.globals.end()) {
            value = global->second;
        }
        if (value) defined.emplace_back(name, *value);
    }
    for (auto& [name, value] : defined) {
        std::erase_if(args_, [&, &n = name](const auto& old) { return old.first == n; });
        args_.emplace_back(name, value);
    }
}

void StageState::apply_expose(const Expose& expose) {
    for (const std::string& text : expose.ports)
        for (const std::string& word : expand_words(text))
            for (const std::string& port : ports_of(word))
                insert_sorted(config.exposed_ports, port);
}

void StageState::apply_volume(const Volume& volume) {
    for (const std::string& path : volume.paths) {
        const std::string expanded = expand_word(path);
        if (expanded.empty())
            throw Error(ErrorKind::invalid_recipe,
                        fmt::format("the volume {} expands to nothing", slipway::quoted(path)));
        insert_sorted(config.volumes, expanded);
    }
}

void StageState::apply_entrypoint(const Entrypoint& entrypoint) {
    config.entrypoint = shell_command(entrypoint.command);
    if (!cmd_set_) config.cmd.clear();
}

void StageState::apply_healthcheck(const Healthcheck& check) {
    Json health = {{"Test", check.test}};
    if (check.interval) health["Interval"] = check.interval;
    if (check.timeout) health["Timeout"] = check.timeout;
    if (check.start_period) health["StartPeriod"] = check.start_period;
    if (check.start_interval) health["StartInterval"] = check.start_interval;
    if (check.retries) health["Retries"] = check.retries;
    config.unknown["Healthcheck"] = std::move(health);
}

void StageState::apply(const Instruction& instruction) {
    const auto& value = instruction.value;
    if (const auto* env = std::get_if<Env>(&value)) return apply_env(*env);
    if (const auto* label = std::get_if<Label>(&value)) return apply_label(*label);
    if (const auto* arg = std::get_if<Arg>(&value)) return apply_arg(*arg);
    if (const auto* expose = std::get_if<Expose>(&value)) return apply_expose(*expose);
    if (const auto* volume = std::get_if<Volume>(&value)) return apply_volume(*volume);
    if (const auto* entry = std::get_if<Entrypoint>(&value)) return apply_entrypoint(*entry);
    if (const auto* check = std::get_if<Healthcheck>(&value)) return apply_healthcheck(*check);
    if (const auto* shell = std::get_if<Shell>(&value)) {
        config.shell = shell->words;
    } else if (const auto* cmd = std::get_if<Cmd>(&value)) {
        config.cmd = shell_command(cmd->command);
        cmd_set_ = true;
    } else if (const auto* user = std::get_if<User>(&value)) {
        config.user = expand_word(user->user);
    } else if (const auto* workdir = std::get_if<Workdir>(&value)) {
        config.working_dir = absolute(expand_word(workdir->path));
    } else if (const auto* stop = std::get_if<StopSignal>(&value)) {
        config.stop_signal = expand_word(stop->signal);
    } else if (const auto* maintainer = std::get_if<Maintainer>(&value)) {
        config.labels["maintainer"] = maintainer->name;
    } else if (const auto* trigger = std::get_if<OnBuild>(&value)) {
        config.on_build.push_back(trigger->trigger);
    } else {
        throw Error(ErrorKind::internal, instruction.keyword + " is no configuration");
    }
}

}  // namespace slipway::builder
