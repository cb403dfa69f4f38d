// What the subcommands have in common: each file sets up one, and runs it when it was chosen.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/runtime/configuration.hpp"
#include "slipway/runtime/run.hpp"

namespace CLI {
class App;
}

namespace slipway::cli {

/// What the chosen subcommand does; returns the process's exit status.
using Action = std::function<int()>;

/// Each adds its subcommand to `app` and sets `action` when the user chose it.
void add_run(CLI::App& app, Action& action);
void add_shell(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_build(CLI::App& app, Action& action);
void add_bootstrap(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_images(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_pull(CLI::App& app, Action& action);
void add_push(CLI::App& app, Action& action);
void add_rmi(CLI::App& app, Action& action);
void add_sign(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_sbom(CLI::App& app, Action& action);
void add_pack(CLI::App& app, Action& action);
void add_fetch(CLI::App& app, Action& action);
void add_gc(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_instance(CLI::App& app, Action& action);

/// Tell as much as -v and -q ask for, each given so many times.
void set_verbosity(int verbose, int quiet);
/// Give each value of a repeatable option its origin: "--bind, argument 2".
std::vector<runtime::Typed> with_origin(const std::vector<std::string>& values,
                                        const std::string& option);
/// The configuration's layers below the command line, read once.
const runtime::Configuration& configuration();
/// The store to use: that of --storage, else the configuration's, else "" (Store::open knows).
std::string chosen_store(const std::string& flag);
/// Tell an error on stderr, however quiet we are.
void print_error(const Error& error);
/// Write a text to stdout, whole. Throws: SysError (a full disk, a closed pipe).
void print(const std::string& text);

}  // namespace slipway::cli
