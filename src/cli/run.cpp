// slipway run: a command in an image, without privilege.
// Must not: decide what is mounted or set; that is the runtime's plan.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "explain_text.hpp"
#include "run_options.hpp"

namespace slipway::cli {
namespace {

struct Options {
    RunFlags flags;
    bool dry_run = false;
    bool explain_env = false;
    bool json = false;
};

int explain_environment(const runtime::RunOptions& run, bool json) {
    const runtime::RunPlan plan = runtime::plan(run);
    print(json ? to_text(runtime::environment_json(plan), 2) + "\n" : environment_table(plan));
    return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("run", "Run a command in an image");
    auto options = std::make_shared<Options>();
    command->footer(
        "slipway run [OPTIONS] IMAGE [--] [COMMAND...]\n"
        "IMAGE is a directory, FILE.sqfs, FILE.sif, oci:DIR[:TAG], docker-archive:FILE[:REF], "
        "docker://REF, a stored name, or / (the host).\nCOMMAND takes the place of the image's "
        "CMD; its ENTRYPOINT comes first. "
        "The exit status is the command's own.");
    add_run_options(*command, options->flags);
    auto* dry_run =
        command->add_flag("--dry-run", options->dry_run, "print the plan as JSON and do nothing");
    command
        ->add_flag("--explain-env", options->explain_env,
                   "print each variable, its value and why it has it, and do nothing")
        ->excludes(dry_run);
    command->add_flag("--json", options->json, "the output of --explain-env as JSON")
        ->needs("--explain-env");
    command->callback([command, options, &action] {
        auto run = take_run_options(*command, options->flags);
        run.only_plan = options->explain_env;
        action = [options, run] {
            if (options->explain_env) return explain_environment(run, options->json);
            if (!options->dry_run) return runtime::run(run);
            print(to_text(runtime::to_json(runtime::plan(run)), 2) + "\n");
            return 0;
        };
    });
}

}  // namespace slipway::cli
