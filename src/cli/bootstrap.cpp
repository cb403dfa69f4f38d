// slipway bootstrap: a base image from the distribution's own packages.
// Must not: know how packages are unpacked.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/builder/build.hpp"

namespace slipway::cli {

void add_bootstrap(CLI::App& app, Action& action) {
    auto* command =
        app.add_subcommand("bootstrap", "Make a base image from a distribution's mirror");
    auto options = std::make_shared<builder::BootstrapOptions>();
    command->add_option("suite", options->suite, "bookworm, trixie, noble, ...")->required();
    command->add_option("-t,--tag", options->tag, "name of the image in the store")->required();
    command->add_option("--mirror", options->mirror,
                        "URL of the mirror (default: what this machine's apt uses)");
    command
        ->add_option("--include", options->include,
                     "one more package (repeatable, or separated by commas)")
        ->delimiter(',');
    command->add_option("--variant", options->variant, "mmdebstrap's variant (default: minbase)");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            options->store = chosen_store(options->store);
            const auto image = builder::bootstrap(*options);
            uint64_t bytes = 0;
            for (const auto& layer : image.layers) bytes += layer.size_bytes;
            log::info("stored {}: {} compressed", options->tag, human_bytes(bytes));
            return 0;
        };
    });
}

}  // namespace slipway::cli
