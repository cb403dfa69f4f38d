// Guesses from a plan which files its command starts with.
// Must not: look at the image.
#include "start_files.hpp"

#include "exec_command.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

/// Where a name is looked for, as exec_command() does.
void add_places(const std::string& name, const RunPlan& plan, std::vector<std::string>& places) {
    if (name.empty()) return;
    if (name.find('/') != std::string::npos) {
        places.push_back(name.starts_with('/') ? name : join_path(plan.working_directory, name));
        return;
    }
    for (const auto& directory : split(search_path(plan.environment), ':'))
        places.push_back(join_path(
            directory.starts_with('/') ? directory : join_path(plan.working_directory, directory),
            name));
}

}  // namespace

StartFiles files_of_start(const RunPlan& plan) {
    StartFiles start;
    for (const auto& shell : plan.shells) add_places(shell, plan, start.programs);
    if (plan.shells.empty() && !plan.argv.empty()) add_places(plan.argv[0], plan, start.programs);
    for (const auto& step : plan.mounts)
        if (step.merge) start.files.push_back(step.destination);
    return start;
}

}  // namespace slipway::runtime
