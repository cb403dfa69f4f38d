// slipway run: a command in an image, without privilege.
// Must not: decide what is mounted or set; that is the runtime's plan.
#include <memory>

#include "command.hpp"
#include "slipway/base/error.hpp"

namespace slipway::cli {
namespace {

struct Options {
    runtime::RunOptions run;
    std::vector<std::string> binds;
    std::vector<std::string> env;
    std::string directory;
    bool dry_run = false;
};

/// Split what follows the options: IMAGE [--] [COMMAND...].
void take_image_and_command(const std::vector<std::string>& words, runtime::RunOptions& run) {
    if (words.empty())
        throw Error(ErrorKind::usage, "no image was named").hint("slipway run IMAGE -- COMMAND");
    if (words[0].size() > 1 && words[0][0] == '-')
        throw Error(ErrorKind::usage, "unknown option " + slipway::quoted(words[0]))
            .hint("slipway run --help");
    run.image = words[0];
    const size_t first = words.size() > 1 && words[1] == "--" ? 2 : 1;
    run.command.assign(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("run", "Run a command in an image");
    auto options = std::make_shared<Options>();
    command->footer(
        "slipway run [OPTIONS] IMAGE [--] [COMMAND...]\n"
        "IMAGE is a directory, FILE.sqfs, oci:DIR[:TAG], docker-archive:FILE[:REF], a stored name, "
        "or / (the "
        "host).\nWithout COMMAND the image's ENTRYPOINT and CMD run. The exit status is the "
        "command's own.");
    command->prefix_command();
    command
        ->add_option("-b,--bind", options->binds,
                     "SRC[:DST[:OPTIONS]]: show a file or directory of the host")
        ->allow_extra_args(false);
    command->add_option("--set-env,--env", options->env, "KEY=VALUE, or KEY for the host's value")
        ->allow_extra_args(false);
    command->add_option("-c,--cd", options->directory, "initial directory inside");
    command->add_flag("-w,--write", options->run.write, "let the command change a directory image");
    command->add_option("--session", options->run.session,
                        "NAME or none: share namespaces under a name of your own, or not at all");
    command->add_option("-s,--storage", options->run.store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->add_flag("--dry-run", options->dry_run, "print the plan as JSON and do nothing");
    command->callback([command, options, &action] {
        take_image_and_command(command->remaining(), options->run);
        action = [options, command] {
            auto& run = options->run;
            run.binds = with_origin(options->binds, "--bind");
            run.env = with_origin(options->env, "--set-env");
            if (command->count("--cd") > 0) run.directory = options->directory;
            if (!options->dry_run) return runtime::run(run);
            print(to_text(runtime::to_json(runtime::plan(run)), 2) + "\n");
            return 0;
        };
    });
}

}  // namespace slipway::cli
