// slipway gc: delete what no stored image needs: cached build steps, packages, squashfs files.
// Must not: know how the store lies on disk.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/store.hpp"

namespace slipway::cli {

void add_gc(CLI::App& app, Action& action) {
    auto* command =
        app.add_subcommand("gc", "Delete cached build steps and what no stored image needs");
    auto directory = std::make_shared<std::string>();
    command->add_option("-s,--storage", *directory, "the image store (default: $SLIPWAY_STORE)");
    command->callback([directory, &action] {
        action = [directory] {
            auto store = image::Store::open(chosen_store(*directory));
            store.prune_cache();
            log::info("deleted what no stored image needs in {}", store.directory());
            return 0;
        };
    });
}

}  // namespace slipway::cli
