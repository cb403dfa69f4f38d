// slipway shell: a shell of the image, for a terminal or a script on standard input.
// Must not: choose the shell; the runtime does, once it sees the image.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "run_options.hpp"

namespace slipway::cli {

void add_shell(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("shell", "Open a shell in an image");
    auto flags = std::make_shared<RunFlags>();
    command->footer(
        "slipway shell [OPTIONS] IMAGE [--] [ARGUMENTS...]\n"
        "The shell is yours if the image has it, else bash, else sh. ARGUMENTS are the shell's: "
        "-c COMMAND, or a script.");
    add_run_options(*command, *flags);
    // A shell takes the place of both ENTRYPOINT and CMD.
    command->remove_option(command->get_option("--entrypoint"));
    command->add_flag("-l,--login", flags->run.login, "a login shell: it reads /etc/profile");
    command->callback([command, flags, &action] {
        auto run = take_run_options(*command, *flags);
        run.shell = true;
        action = [run] { return runtime::run(run); };
    });
}

}  // namespace slipway::cli
