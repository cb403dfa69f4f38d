// slipway's command line, for a table of subcommands.
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

/// Read the command line and do what the chosen subcommand does; returns the exit status.
/// Throws: Error(usage).
int run_command_line(Subcommands subcommands, int argc, char* argv[]);
/// "slipway instance start": the words that lead to a subcommand.
std::string full_name(const CLI::App& command);

}  // namespace slipway::cli
