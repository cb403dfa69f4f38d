// What the starter and the full program have in common: they parse, run the chosen subcommand,
// print errors and choose the exit status. Must not: do any work of a room itself.
#include "program.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "ch_run.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::cli {
namespace {

/// The rank's number as the launcher gave it, for messages.
void tag_messages_with_rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* rank = std::getenv(name)) {
            log::set_tag(fmt::format("rank {}", rank));
            return;
        }
}

void set_verbosity(int verbose, int quiet) {
    const int level = static_cast<int>(log::Level::info) + verbose - quiet;
    const int lowest = static_cast<int>(log::Level::error);
    const int highest = static_cast<int>(log::Level::debug);
    log::set_level(static_cast<log::Level>(std::clamp(level, lowest, highest)));
}

/// CLI11's wording as ours: lower case; a misspelt subcommand is named.
Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const auto left = app.remaining();
    if (chosen.empty() && !left.empty())
        return Error(ErrorKind::usage,
                     fmt::format("there is no {} {}",
                                 left[0].starts_with('-') ? "option" : "subcommand",
                                 slipway::quoted(left[0])))
            .hint("slipway --help");
    std::string text = error.what();
    if (text.size() > 1 && std::isupper(static_cast<unsigned char>(text[1])) == 0)
        text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    const CLI::App* of = &app;
    for (auto below = chosen; !below.empty(); below = of->get_subcommands()) of = below[0];
    return Error(ErrorKind::usage, text).hint(full_name(*of) + " --help");
}

/// Add the subcommand that the first word names, and no other: declaring the options of all takes
/// longer than to enter a container. Where no word names one, all are needed, for the help.
void add_subcommands(CLI::App& app, Action& action, Subcommands subcommands, int argc,
                     char* argv[]) {
    int first = 1;
    bool help = false;
    for (; first < argc && argv[first][0] == '-'; ++first)
        help = help || std::string_view(argv[first]) == "-h" ||
               std::string_view(argv[first]).starts_with("--help");
    if (first < argc && !help)
        for (const auto& row : subcommands)
            if (row.name == argv[first]) return row.add(app, action);
    need_full_program();
    for (const auto& row : subcommands) row.add(app, action);
}

int parse_and_run(Subcommands subcommands, int argc, char* argv[]) {
    CLI::App app{
        "Slipway builds AI container images without privilege and launches them on clusters.",
        "slipway"};
    app.set_version_flag("-V,--version", std::string("slipway ") + SLIPWAY_VERSION);
    app.require_subcommand(1);
    app.fallthrough(false);
    int verbose = 0;
    int quiet = 0;
    app.add_flag("-v,--verbose", verbose, "say more (twice: everything)");
    app.add_flag("-q,--quiet", quiet, "say less (once: warnings and errors; twice: errors)");
    Action action;
    note_words(argc, argv);
    add_subcommands(app, action, subcommands, argc, argv);
    app.parse_complete_callback([&] { set_verbosity(verbose, quiet); });
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
            return app.exit(error);
        throw usage_error(app, error);
    }
    set_verbosity(verbose, quiet);
    return action();
}

int report(const Error& error) {
    print_error(error);
    return error.exit_status();
}

}  // namespace

std::string full_name(const CLI::App& command) {
    const CLI::App* parent = command.get_parent();
    return (parent == nullptr ? "" : full_name(*parent) + ' ') + command.get_name();
}

int run_program(Subcommands subcommands, int argc, char* argv[]) {
    sys::hold_standard_descriptors();
    tag_messages_with_rank();
    int status = kExitOwnFailure;
    try {
        if (argc > 0 && base_name(argv[0]) == "ch-run")
            status = ch_run({argv + 1, argv + argc});
        else
            status = parse_and_run(subcommands, argc, argv);
        log::repeat_warnings();
    } catch (const Error& error) {
        log::repeat_warnings();
        status = report(error);
    } catch (const std::bad_alloc&) {
        status = report(Error(ErrorKind::internal, "out of memory"));
    } catch (const std::exception& error) {
        status = report(Error(ErrorKind::internal, error.what()));
    }
    return status;
}

}  // namespace slipway::cli
