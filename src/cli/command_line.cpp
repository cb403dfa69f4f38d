// slipway's command line: one of the subcommands, read by CLI11.
// Must not: do any work of a room itself.
#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::cli {
namespace {

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
    for (const auto& row : subcommands) row.add(app, action);
}

}  // namespace

std::string full_name(const CLI::App& command) {
    const CLI::App* parent = command.get_parent();
    return (parent == nullptr ? "" : full_name(*parent) + ' ') + command.get_name();
}

int run_command_line(Subcommands subcommands, int argc, char* argv[]) {
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

}  // namespace slipway::cli
