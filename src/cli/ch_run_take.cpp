// Takes ch-run's options in, one by one, in the order typed.
// Must not: look at the image, or run anything.
#include <fmt/core.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "ch_run.hpp"
#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"

namespace slipway::cli {
namespace {

constexpr int kExitNoFeature = 87;
constexpr int kMaxRepeats = 3;
/// The version of Charliecloud whose command line this is.
constexpr const char* kChRunVersion = "0.45.2";
constexpr const char* kDefaultOverlay = "tmpfs=12%";

Error invalid(const std::string& option, const std::string& reason) {
    return Error(ErrorKind::usage, fmt::format("{}: {}", option, reason)).hint("ch-run --help");
}

struct Feature {
    const char* name;
    bool there;
};
constexpr Feature kFeatures[] = {
    {"extglob", true}, {"gc", false},    {"json", true},         {"overlayfs", true},
    {"seccomp", true}, {"squash", true}, {"tmpfs-xattrs", true},
};

int answer_feature(const std::string& name) {
    for (const auto& feature : kFeatures)
        if (feature.name == name) return feature.there ? 0 : kExitNoFeature;
    throw invalid("--feature", "there is no feature " + slipway::quoted(name));
}

/// SRC[:DST], checked as ch-run checks it; the rest is the runtime's.
void take_bind(const std::string& text, runtime::RunOptions& run) {
    const size_t colon = text.find(':');
    if (colon == 0 || text.empty()) throw invalid("--bind", "there is no source");
    if (colon != std::string::npos) {
        const std::string destination = text.substr(colon + 1);
        if (destination.empty()) throw invalid("--bind", "there is no destination");
        if (destination == "/") throw invalid("--bind", "the destination cannot be /");
        if (destination[0] != '/') throw invalid("--bind", "the destination must be absolute");
    }
    run.binds.push_back({text, fmt::format("--bind, argument {}", run.binds.size() + 1)});
}

void take_color(const std::string& when) {
    for (const char* known :
         {"", "auto", "tty", "if-tty", "yes", "always", "force", "no", "never", "none"})
        if (when == known) return;
    throw invalid("--color", "there is no choice " + slipway::quoted(when));
}

std::string take_id(const std::string& text, const std::string& option) {
    const int id = parse_ch_number(text, option);
    if (id < 0) throw invalid(option, "must not be negative");
    return std::to_string(id);
}

void take_volume(ChRequest& request, bool louder) {
    int& counter = louder ? request.verbose : request.quiet;
    if ((louder ? request.quiet : request.verbose) > 0)
        throw invalid("--verbose", "excludes --quiet");
    if (++counter > kMaxRepeats)
        throw invalid(louder ? "--verbose" : "--quiet", "counts three times at most");
}

void take_environment(const ChOptionRow& row, const std::optional<std::string>& value,
                      ChRequest& request) {
    if (value && value->empty()) throw invalid(fmt::format("--{}", row.name), "the value is empty");
    request.cdi = request.cdi || row.option == ChOption::cdi;
    const size_t number = request.env.size() + 1;
    request.env.push_back(
        {row.option, value, fmt::format("--{}, change {} of the environment", row.name, number)});
}

void warn_as_asked(const std::string& text) {
    const int count = parse_ch_number(text, "--warnings");
    for (int i = 1; i <= count; ++i) log::warning("this is warning {}", i);
}

/// Options about the command line itself. Returns the status with which ch-run ends, if it does.
std::optional<int> take_asides(ChOption option, const std::string& value, ChRequest& request) {
    switch (option) {
        case ChOption::help:
            print(ch_help());
            return 0;
        case ChOption::usage:
            print(ch_usage());
            return 0;
        case ChOption::version:  // on standard error, as ch-run's own
            fmt::print(stderr, "{} (slipway {})\n", kChRunVersion, SLIPWAY_VERSION);
            return 0;
        case ChOption::feature:
            return answer_feature(value);
        case ChOption::warnings:
            warn_as_asked(value);
            return 0;
        case ChOption::test:
            throw invalid("--test", "there is no test " + slipway::quoted(value));
        case ChOption::color:
            take_color(value);
            break;
        case ChOption::verbose:
        case ChOption::quiet:
            take_volume(request, option == ChOption::verbose);
            break;
        case ChOption::abort_fatal:
            request.abort_on_failure = true;
            break;
        case ChOption::no_home:
            log::warning("--no-home has no effect: the home directory is shown with --home only");
            break;
        default:  // accepted without effect
            break;
    }
    return std::nullopt;
}

bool take_join(ChOption option, const std::string& value, ChRequest& request) {
    switch (option) {
        case ChOption::join_ct:
            if (parse_ch_number(value, "--join-ct") < 1)
                throw invalid("--join-ct", "there must be a peer");
            break;
        case ChOption::join_tag:
            if (value.empty()) throw invalid("--join-tag", "the name is empty");
            request.join_tag = value;
            break;
        case ChOption::join_pid:
            request.join_pid = parse_ch_number(value, "--join-pid");
            return true;
        case ChOption::join:
            break;
        default:
            return false;
    }
    request.join = true;
    return true;
}

bool take_container(ChOption option, const std::string& value, ChRequest& request) {
    runtime::RunOptions& run = request.run;
    switch (option) {
        case ChOption::bind:
            take_bind(value, run);
            break;
        case ChOption::cd:
            if (value.empty()) throw invalid("--cd", "the directory's name is empty");
            run.directory = value;
            break;
        case ChOption::cdi_dirs:
            if (value.empty()) throw invalid("--cdi-dirs", "there is no directory");
            request.cdi_dirs = value;
            break;
        case ChOption::gid:
            run.gid = take_id(value, "--gid");
            break;
        case ChOption::uid:
            run.uid = take_id(value, "--uid");
            break;
        case ChOption::home:
            request.home = true;
            break;
        case ChOption::mount:
            if (value.empty()) throw invalid("--mount", "the directory's name is empty");
            request.mount = value;
            break;
        case ChOption::no_passwd:
            run.keep_accounts = true;
            break;
        case ChOption::seccomp:
            run.fake_root_calls = true;
            break;
        case ChOption::storage:
            if (value.empty()) throw invalid("--storage", "the directory's name is empty");
            request.storage = value;
            break;
        case ChOption::private_tmp:
            run.private_tmp = true;
            break;
        case ChOption::write:
            run.write = true;
            break;
        case ChOption::write_fake:
            run.overlay = value.empty() ? kDefaultOverlay : "tmpfs=" + value;
            break;
        default:
            return false;
    }
    return true;
}

/// What options imply of each other, once all are known.
void settle(ChRequest& request) {
    runtime::RunOptions& run = request.run;
    if (request.home) {
        const char* home = std::getenv("HOME");
        if (home == nullptr) throw invalid("--home", "the variable HOME is not set");
        run.binds.push_back({fmt::format("{}:/home/{}", home, ch_user_name()), "--home"});
        if (!run.overlay) run.overlay = kDefaultOverlay;
    }
    if (request.cdi && !run.overlay) run.overlay = kDefaultOverlay;
    if (run.overlay) run.write = false;  // writes go to memory, as with ch-run
    // Peers share; others share with their siblings what nobody can change, and nothing else.
    const bool changes = run.overlay || run.private_tmp || run.uid == "0";
    if (request.join_tag)
        run.session = "ch-" + *request.join_tag;
    else if (!request.join && changes)
        run.session = "none";
}

}  // namespace

int parse_ch_number(const std::string& text, const std::string& option) {
    char* end = nullptr;
    errno = 0;
    const long number = std::strtol(text.c_str(), &end, 10);
    if (end == text.c_str() || *end != '\0')
        throw invalid(option, fmt::format("{} is not a whole number", slipway::quoted(text)));
    if (errno == ERANGE || number < INT_MIN || number > INT_MAX)
        throw invalid(option, fmt::format("{} is out of range", text));
    return static_cast<int>(number);
}

void take_ch_request(const std::vector<std::string>& words, ChRequest& request) {
    const auto take = [&](const ChOptionRow& row, const std::optional<std::string>& value) {
        const std::string text = value.value_or("");
        switch (row.option) {
            case ChOption::set_env:
            case ChOption::set_env0:
            case ChOption::unset_env:
            case ChOption::cdi:
                take_environment(row, value, request);
                break;
            case ChOption::env_no_expand:  // of all, wherever it stands, as ch-run does it
                request.expand_env = false;
                break;
            default:
                if (!take_container(row.option, text, request) &&
                    !take_join(row.option, text, request))
                    request.exit_status = take_asides(row.option, text, request);
        }
        return !request.exit_status;
    };
    const bool in_order = std::getenv("POSIXLY_CORRECT") != nullptr;
    const auto others = read_ch_options(words, in_order, take);
    if (request.exit_status) return;
    if (others.empty()) {  // as argp: help, and a failure
        print(ch_help());
        request.exit_status = 1;
        return;
    }
    request.run.image = others[0];
    request.command.assign(others.begin() + 1, others.end());
    settle(request);
}

}  // namespace slipway::cli
