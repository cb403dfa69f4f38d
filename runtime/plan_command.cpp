// Decides which words a run executes, and in which directory.
// Must not: look whether the program is there; the kernel tells, and exec_command words it.
#include "plan_command.hpp"

#include <algorithm>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::runtime {

namespace {

std::vector<CommandPart> shell_command(const RunSpec& spec) {
    CommandPart shell{{"sh"}, "slipway shell"};
    if (spec.login) shell.words.push_back("-l");
    std::vector<CommandPart> parts{shell};
    if (!spec.command.empty()) parts.push_back({spec.command, "command line"});
    return parts;
}

}  // namespace

std::vector<CommandPart> plan_command(const RunSpec& spec, const image::ImageConfig& config) {
    if (spec.shell) return shell_command(spec);
    std::vector<CommandPart> parts;
    const auto add = [&parts](const std::vector<std::string>& words, const char* origin) {
        if (!words.empty()) parts.push_back({words, origin});
    };
    if (spec.entrypoint)
        add(*spec.entrypoint, "--entrypoint");
    else if (!spec.replace_entrypoint || spec.command.empty())
        add(config.entrypoint, "image ENTRYPOINT");
    if (!spec.command.empty())
        add(spec.command, "command line");
    else if (!spec.entrypoint)
        add(config.cmd, "image CMD");
    if (parts.empty() && !spec.command_optional)
        throw Error(ErrorKind::usage, "there is no command to run")
            .note("the image has neither ENTRYPOINT nor CMD")
            .hint("name a command after the image: slipway run IMAGE -- COMMAND");
    return parts;
}

std::vector<std::string> plan_shells(const HostFacts& facts) {
    std::vector<std::string> shells;
    if (!facts.shell.empty()) shells.push_back(facts.shell);
    shells.insert(shells.end(), {"bash", "sh"});
    return shells;
}

void plan_working_directory(const RunSpec& spec, const image::ImageConfig& config, RunPlan& plan) {
    if (spec.directory) {
        plan.working_directory = *spec.directory;
        plan.reasons.working_directory = "--cd";
        return;
    }
    plan.working_directory = lexically_normal("/" + config.working_dir);
    plan.reasons.working_directory = config.working_dir.empty() ? "default" : "image WORKDIR";
    if (plan.working_directory == "/") return;
    MountStep step;
    step.kind = MountStep::Kind::directory;
    step.if_missing = MountStep::IfMissing::create;
    step.destination = plan.working_directory;
    step.recursive = false;
    step.origin = "image WORKDIR";
    // Right behind the image: a bind may lie over it, but is not made to hold it.
    const auto behind = std::find_if(plan.mounts.begin(), plan.mounts.end(), [](const auto& other) {
        return other.kind != MountStep::Kind::image_directory &&
               other.kind != MountStep::Kind::image_squashfs &&
               other.kind != MountStep::Kind::overlay;
    });
    plan.mounts.insert(behind, step);
}

}  // namespace slipway::runtime
