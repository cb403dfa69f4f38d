// slipway doctor: what this host allows, and how to change it.
// Must not: try anything itself; the runtime does.
#include "slipway/runtime/doctor.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"

namespace slipway::cli {
namespace {

struct DoctorFlags {
    std::string store;
    bool json = false;
};

std::string as_text(const runtime::Diagnosis& diagnosis) {
    size_t width = 0;
    for (const auto& finding : diagnosis.findings) width = std::max(width, finding.name.size());
    std::string text;
    int problems = 0, warnings = 0;
    for (const auto& finding : diagnosis.findings) {
        text += fmt::format("{:<8} {:<{}}  {}\n", runtime::to_string(finding.level), finding.name,
                            width, finding.found);
        const std::string indent(width + 11, ' ');
        if (!finding.meaning.empty()) text += indent + "means: " + finding.meaning + "\n";
        if (!finding.remedy.empty()) text += indent + "try: " + finding.remedy + "\n";
        problems += finding.level == runtime::Finding::Level::problem;
        warnings += finding.level == runtime::Finding::Level::warning;
    }
    return text + fmt::format("squashfs images {} here ({} problems, {} warnings)\n",
                              diagnosis.images_run() ? "run" : "do not run", problems, warnings);
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
    auto* command =
        app.add_subcommand("doctor", "Try what this host allows, and say how to fix it");
    auto options = std::make_shared<DoctorFlags>();
    command->footer("The exit status is 0 if squashfs images run here, and 1 if they do not.");
    command->add_flag("--json", options->json, "as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store to look at (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            const auto diagnosis = runtime::examine_host(options->store);
            print(options->json ? to_text(to_json(diagnosis), 2) + "\n" : as_text(diagnosis));
            return diagnosis.images_run() ? 0 : 1;
        };
    });
}

}  // namespace slipway::cli
