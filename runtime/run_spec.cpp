// Turns options as typed into a validated specification.
// Must not: look at the image or at the host, beyond the working directory for relative sources.
#include "run_spec.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>

#include "slipway/base/error.hpp"

namespace slipway::runtime {

namespace {

constexpr double kMaxSeconds = 100.0 * 365 * 86400;

double unit_seconds(std::string_view unit) {
    if (unit.empty() || unit == "s") return 1;
    if (unit == "m") return 60;
    if (unit == "h") return 3600;
    if (unit == "d") return 86400;
    return 0;
}

}  // namespace

uint64_t parse_duration_ms(const std::string& text, const std::string& option) {
    char* end = nullptr;
    const bool begins = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
    const double number = begins ? std::strtod(text.c_str(), &end) : -1;
    const double seconds = begins ? number * unit_seconds(end) : -1;
    if (!begins || !std::isfinite(number) || unit_seconds(end) == 0 || seconds > kMaxSeconds)
        throw Error(ErrorKind::usage,
                    fmt::format("cannot understand the duration {}", slipway::quoted(text)))
            .note("requested by: " + option)
            .hint("write a number of seconds, or a number with s, m, h or d after it");
    return static_cast<uint64_t>(seconds * 1000 + 0.5);
}

RunSpec make_run_spec(const RunOptions& options) {
    RunSpec spec;
    spec.command = options.command;
    if (options.entrypoint)
        spec.entrypoint = options.entrypoint->empty()
                              ? std::vector<std::string>{}
                              : std::vector<std::string>{*options.entrypoint};
    spec.replace_entrypoint = options.replace_entrypoint;
    spec.export_directory = options.export_directory;
    spec.shell = options.shell;
    spec.login = options.login;
    spec.command_optional = options.only_plan;
    spec.mounts = make_mount_spec(options);
    spec.env = make_env_spec(options);
    spec.identity = make_identity_spec(options);
    spec.directory = options.directory;
    if (spec.directory && !spec.directory->starts_with('/'))
        throw Error(ErrorKind::usage, fmt::format("the initial directory {} is not absolute",
                                                  slipway::quoted(*spec.directory)))
            .note("requested by: --cd");
    spec.fake_root_calls = options.fake_root_calls;
    spec.share_session = options.session != "none";
    if (spec.share_session) spec.session_name = options.session;
    if (options.linger) {
        const uint64_t linger_ms = parse_duration_ms(*options.linger, "--linger");
        if (spec.share_session) spec.linger_ms = linger_ms;
    }
    if (options.timeout) spec.timeout_ms = parse_duration_ms(*options.timeout, "--timeout");
    spec.detach_on_kill = options.detach_on_kill;
    spec.library_directories = options.library_directories;
    return spec;
}

}  // namespace slipway::runtime
