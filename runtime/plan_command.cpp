// Decides which words a run executes.
// Must not: look whether the program is there; the kernel tells, and exec_command words it.
#include "plan_command.hpp"

#include "slipway/base/error.hpp"

namespace slipway::runtime {

std::vector<std::string> plan_command(const RunSpec& spec, const image::ImageConfig& config) {
    if (spec.replace_entrypoint && !spec.command.empty()) return spec.command;
    auto argv = spec.entrypoint.value_or(config.entrypoint);
    if (!spec.command.empty())
        argv.insert(argv.end(), spec.command.begin(), spec.command.end());
    else if (!spec.entrypoint)
        argv.insert(argv.end(), config.cmd.begin(), config.cmd.end());
    if (argv.empty())
        throw Error(ErrorKind::usage, "there is no command to run")
            .note("the image has neither ENTRYPOINT nor CMD")
            .hint("name a command after the image: slipway run IMAGE -- COMMAND");
    return argv;
}

}  // namespace slipway::runtime
