// The options of every subcommand that runs something in an image: run, shell, explain, instance.
#pragma once

#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace CLI {
class App;
}

namespace slipway::cli {

/// What is filled while a command line is read; take_run_options() makes the request of it.
struct RunFlags {
    runtime::RunOptions run;
    std::vector<std::string> binds, data, env, env_files, unset_env;
    std::string entrypoint, directory, overlay, user, uid, gid, hostname, linger, timeout, stage,
        verify;
};

/// Who wants to know the options: CLI11 (add_run_options), or the starter (read_plain_run).
/// `names` are as CLI11 has them: "-b,--bind,--volume".
class OptionTable {
 public:
    virtual ~OptionTable() = default;
    /// An option that takes a value, each time it is given.
    virtual void values(const char* names, std::vector<std::string>& into, const char* help) = 0;
    /// An option that takes one value: the last counts, so that a wrapper's can be replaced.
    virtual void value(const char* names, std::string& into, const char* help) = 0;
    /// A flag; "!--no-x" makes it false.
    virtual void flag(const char* names, bool& into, const char* help) = 0;
    /// A flag that may have a value, "--stage=DIR"; "--stage{auto}" names the one without.
    virtual void flag(const char* names, std::string& into, const char* help) = 0;
};

void declare_run_options(OptionTable& table, RunFlags& flags);

/// A command line that was read.
struct TypedRun {
    std::vector<std::string> options;  ///< "--bind": each that was given, in the order typed
    std::vector<std::string> words;    ///< IMAGE [--] [COMMAND...]
    std::string subcommand;            ///< "slipway run", for hints
    std::string before_image;          ///< "NAME ", where one comes first
};

/// The request. Throws: Error(usage).
runtime::RunOptions take_run_options(const TypedRun& typed, RunFlags& flags);

/// With CLI11: add the options to a subcommand that takes IMAGE [--] [COMMAND...] after them.
void add_run_options(CLI::App& command, RunFlags& flags);
/// With CLI11: the request, once the command line has been parsed. Throws: Error(usage).
runtime::RunOptions take_run_options(const CLI::App& command, RunFlags& flags);

}  // namespace slipway::cli
