// slipway rmi: take images out of the store.
// Must not: know how the store lies on disk.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/store.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string store;
    std::vector<std::string> names;
};

}  // namespace

void add_rmi(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("rmi", "Remove stored images");
    auto options = std::make_shared<Options>();
    command->add_option("names", options->names, "the images")->required();
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            auto store = image::Store::open(chosen_store(options->store));
            for (const auto& name : options->names) {
                store.remove(name);
                log::info("removed {}", name);
            }
            return 0;
        };
    });
}

}  // namespace slipway::cli
