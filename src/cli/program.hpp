// The command line's program, for the tables of subcommands that the two executables have.
#pragma once

#include <span>
#include <string_view>

#include "command.hpp"

namespace slipway::cli {

struct Subcommand {
    std::string_view name;
    void (*add)(CLI::App&, Action&);
};
using Subcommands = std::span<const Subcommand>;

/// "slipway instance start": the words that lead to a subcommand.
std::string full_name(const CLI::App& command);
/// slipway (or ch-run, if that is its name) from its arguments to its exit status, errors told.
int run_program(Subcommands subcommands, int argc, char* argv[]);

}  // namespace slipway::cli
