// slipway build: a Dockerfile becomes an image in the store and, if asked, a squashfs file.
// Must not: know the Dockerfile language.
#include "slipway/builder/build.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"

namespace slipway::cli {
namespace {

struct Options {
    builder::BuildOptions build;
    std::string network = "host";
    bool dry_run = false;
};

void tell(const builder::BuildReport& report, const builder::BuildOptions& options) {
    const std::string name = report.name.empty() ? report.image.config_digest.text() : report.name;
    log::info("built {}: {} steps, {} cached, {} layers", name, report.steps, report.cached_steps,
              report.image.layers.size());
    if (!options.output.empty())
        log::info("wrote {}: {}", options.output, human_bytes(report.squashfs_bytes));
}

}  // namespace

void add_build(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("build", "Build an image from a Dockerfile");
    auto options = std::make_shared<Options>();
    auto& build = options->build;
    command->add_option("context", build.context, "the directory that COPY and ADD read from")
        ->required();
    command->add_option("-t,--tag", build.tag, "name of the image in the store");
    command->add_option("-f,--file", build.dockerfile,
                        "the Dockerfile (default: CONTEXT/Dockerfile; - is stdin)");
    command->add_option("-o,--output", build.output, "write the image as one squashfs file");
    command
        ->add_option("--build-arg", build.build_args,
                     "KEY=VALUE, or KEY for the environment's value")
        ->allow_extra_args(false);
    command->add_option("--preload", build.preload, "add a part of Slipway: train")
        ->allow_extra_args(false);
    command->add_flag("--sbom", build.sbom,
                      "put a list of the software (SPDX) into the squashfs file");
    command->add_option("--target", build.target, "stop at this stage");
    command->add_flag("--no-cache", build.no_cache, "run every step again");
    command->add_option("--network", options->network, "host or none, for RUN")
        ->check(CLI::IsMember({"host", "none"}));
    command->add_option("-s,--storage", build.store, "the image store (default: $SLIPWAY_STORE)");
    command->add_flag("--dry-run", options->dry_run, "print the plan as JSON and do nothing");
    command->callback([options, &action] {
        action = [options] {
            options->build.no_network = options->network == "none";
            options->build.store = chosen_store(options->build.store);
            if (options->build.sbom && options->build.output.empty())
                throw Error(ErrorKind::usage, "a list of software needs a squashfs file to be in")
                    .note("requested by: --sbom")
                    .hint("add -o FILE.sqfs");
            if (options->dry_run) {
                print(to_text(builder::plan_build(options->build), 2) + "\n");
                return 0;
            }
            tell(builder::build(options->build), options->build);
            return 0;
        };
    });
}

}  // namespace slipway::cli
