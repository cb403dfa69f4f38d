// The options of every subcommand that runs something in an image: run, shell, explain, instance.
#pragma once

#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace CLI {
class App;
}

namespace slipway::cli {

/// What CLI11 fills while it parses; take_run_options() makes the request of it.
struct RunFlags {
    runtime::RunOptions run;
    std::vector<std::string> binds, data, env, env_files, unset_env;
    std::string entrypoint, directory, overlay, user, uid, gid, hostname, linger, timeout, stage,
        verify;
};

/// Add the options to a subcommand that takes IMAGE [--] [COMMAND...] after them.
void add_run_options(CLI::App& command, RunFlags& flags);

/// The request, once the command line has been parsed. Throws: Error(usage).
runtime::RunOptions take_run_options(const CLI::App& command, RunFlags& flags);

}  // namespace slipway::cli
