// slipway fetch: a dataset of a catalogue as a pack.
// Must not: know how data are fetched.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "dataset_text.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/sbom.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string name, output, catalogue, store;
    bool list = false, json = false;
};

Json as_json(const std::vector<image::CatalogueEntry>& entries) {
    Json list = Json::array();
    for (const auto& entry : entries)
        list.push_back({{"name", entry.about.name},
                        {"version", entry.about.version},
                        {"license", entry.about.license},
                        {"source", entry.about.source},
                        {"description", entry.about.description},
                        {"files", entry.files.size()}});
    return list;
}

std::string as_text(const std::vector<image::CatalogueEntry>& entries) {
    std::string text;
    for (const auto& entry : entries)
        text += fmt::format("{:<20} {:<10} {:<16} {}\n", entry.about.name, entry.about.version,
                            entry.about.license, entry.about.description);
    return text;
}

int list(const Options& options) {
    std::vector<std::string> warnings;
    const auto entries = image::read_catalogue(options.catalogue, warnings);
    for (const auto& warning : warnings) log::warning("{}", warning);
    print(options.json ? to_text(as_json(entries), 2) + "\n" : as_text(entries));
    return 0;
}

int fetch(const Options& options) {
    if (options.name.empty())
        throw Error(ErrorKind::usage, "no dataset was named")
            .hint("slipway fetch NAME -o FILE.sqfs; slipway fetch --list tells the names");
    const auto entry = image::find_catalogue_entry(options.name, options.catalogue);
    const std::string output = options.output.empty() ? entry.about.name + ".sqfs" : options.output;
    image::SquashfsOptions squashfs;
    if (std::getenv("SOURCE_DATE_EPOCH") != nullptr)
        squashfs.source_date_epoch = image::document_time();
    const auto store = image::Store::open(chosen_store(options.store));
    tell_dataset(output, image::fetch_dataset(entry, output, store, squashfs));
    return 0;
}

}  // namespace

void add_fetch(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("fetch", "Download a dataset of a catalogue as one file");
    auto options = std::make_shared<Options>();
    command->add_option("name", options->name,
                        "NAME[@VERSION] in the catalogue, or an entry's file");
    command->add_option("-o,--output", options->output, "the pack (default: NAME.sqfs)");
    command->add_option("--catalogue", options->catalogue,
                        "directory of entries (default: as configured)");
    command->add_flag("--list", options->list, "list the catalogue");
    command->add_flag("--json", options->json, "with --list: as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            if (options->catalogue.empty()) options->catalogue = configuration().value("catalogue");
            return options->list ? list(*options) : fetch(*options);
        };
    });
}

}  // namespace slipway::cli
