// slipway explain: what `slipway run` with the same options would do, and why.
// Must not: run anything.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "explain_text.hpp"
#include "run_options.hpp"

namespace slipway::cli {
namespace {

struct Options {
    RunFlags flags;
    bool json = false;
};

}  // namespace

void add_explain(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("explain", "Say what run would do, and why");
    auto options = std::make_shared<Options>();
    command->footer(
        "slipway explain [OPTIONS] IMAGE [--] [COMMAND...]\n"
        "The options are those of slipway run. Nothing is run; a stored image still gets its "
        "squashfs file.");
    add_run_options(*command, options->flags);
    command->add_flag("--json", options->json, "the plan and its reasons as JSON");
    command->callback([command, options, &action] {
        auto run = take_run_options(*command, options->flags);
        run.only_plan = true;
        action = [options, run] {
            const runtime::RunPlan plan = runtime::plan(run);
            print(options->json ? to_text(runtime::explain_json(plan), 2) + "\n" : plan_text(plan));
            return 0;
        };
    });
}

}  // namespace slipway::cli
