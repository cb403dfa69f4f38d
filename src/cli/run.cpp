// slipway run: a command in an image, without privilege.
// Must not: decide what is mounted or set; that is the runtime's plan.
#include <memory>

#include "command.hpp"
#include "run_options.hpp"

namespace slipway::cli {
namespace {

struct Options {
    RunFlags flags;
    bool dry_run = false;
    bool explain_env = false;
};

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("run", "Run a command in an image");
    auto options = std::make_shared<Options>();
    command->footer(
        "slipway run [OPTIONS] IMAGE [--] [COMMAND...]\n"
        "IMAGE is a directory, FILE.sqfs, FILE.sif, oci:DIR[:TAG], docker-archive:FILE[:REF], "
        "docker://REF, a stored name, or / (the host).\nCOMMAND takes the place of the image's CMD; its ENTRYPOINT comes first. "
        "The exit status is the command's own.");
    add_run_options(*command, options->flags);
    command->add_flag("--dry-run", options->dry_run, "print the plan as JSON and do nothing");
    command->add_flag("--explain-env", options->explain_env,
                      "print each variable, its value and why it has it, and do nothing");
    command->callback([command, options, &action] {
        const auto run = take_run_options(*command, options->flags);
        action = [options, run] {
            if (!options->dry_run) return runtime::run(run);
            print(to_text(runtime::to_json(runtime::plan(run)), 2) + "\n");
            return 0;
        };
    });
}

}  // namespace slipway::cli
