// slipway sbom: what software is in an image, as an SPDX document.
// Must not: change the image.
#include "slipway/image/sbom.hpp"

#include <memory>

#include "command.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string image, format = "spdx-json", output, store;
};

}  // namespace

void add_sbom(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("sbom", "List the software in an image (SPDX)");
    auto options = std::make_shared<Options>();
    command->add_option("image", options->image, "any image reference")->required();
    command->add_option("--format", options->format, "of the document: spdx-json")
        ->check(CLI::IsMember({"spdx-json"}));
    command->add_option("-o,--output", options->output, "write to this file, not standard output");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            const auto store = image::Store::open(chosen_store(options->store));
            const auto inventory = image::read_inventory(options->image, store);
            for (const auto& warning : inventory.warnings) log::warning("{}", warning);
            const std::string document =
                image::spdx_document(inventory, options->image, image::document_time());
            if (options->output.empty())
                print(document);
            else
                write_file_atomic(options->output, document);
            log::info("{} packages", inventory.packages.size());
            return 0;
        };
    });
}

}  // namespace slipway::cli
