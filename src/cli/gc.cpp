// slipway gc: delete what no stored image needs: cached build steps, packages, squashfs files.
// Must not: know how the store lies on disk.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/store.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string store;
    image::GcOptions gc;
    uint64_t keep_bytes = 0;
    bool keep_cache = false;
    bool json = false;
};

Json as_json(const image::GcReport& report, const std::string& store, bool dry_run) {
    Json list = Json::array();
    for (const auto& item : report.deleted)
        list.push_back({{"kind", item.kind}, {"name", item.name}, {"size_bytes", item.size_bytes}});
    return {{"store", store},
            {"dry_run", dry_run},
            {"deleted", list},
            {"freed_bytes", report.freed_bytes},
            {"kept_bytes", report.kept_bytes}};
}

void tell(const image::GcReport& report, const std::string& store, bool dry_run) {
    std::map<std::string, std::pair<size_t, uint64_t>> kinds;
    for (const auto& item : report.deleted) {
        auto& [count, size_bytes] = kinds[item.kind];
        ++count;
        size_bytes += item.size_bytes;
    }
    const char* verb = dry_run ? "would delete" : "deleted";
    for (const auto& [kind, sum] : kinds)
        log::info("{} {} of kind {} ({})", verb, sum.first, kind, human_bytes(sum.second));
    log::info("{} {} in {}; {} stay", verb, human_bytes(report.freed_bytes), store,
              human_bytes(report.kept_bytes));
}

}  // namespace

void add_gc(CLI::App& app, Action& action) {
    auto* command =
        app.add_subcommand("gc", "Delete cached build steps and what no stored image needs");
    auto options = std::make_shared<Options>();
    command->add_flag("--keep-cache", options->keep_cache,
                      "leave the build cache and what it needs");
    auto* keep = command
                     ->add_option("--keep", options->keep_bytes,
                                  "also delete, least recently used first, what can be made again, "
                                  "until the store is no larger (500M, 20G)")
                     ->transform(CLI::AsSizeValue(false));
    command->add_flag("--dry-run", options->gc.dry_run, "say what would be deleted");
    command->add_flag("--json", options->json, "the report as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, keep, &action] {
        if (keep->count() > 0) options->gc.keep_bytes = options->keep_bytes;
        options->gc.build_cache = !options->keep_cache;
        action = [options] {
            auto store = image::Store::open(chosen_store(options->store));
            const auto report = store.collect_garbage(options->gc);
            if (options->json)
                print(to_text(as_json(report, store.directory(), options->gc.dry_run), 2) + "\n");
            else
                tell(report, store.directory(), options->gc.dry_run);
            if (options->gc.keep_bytes && report.kept_bytes > *options->gc.keep_bytes)
                log::warning(
                    "{} stay, which is more than asked for: images keep what they need; {}",
                    human_bytes(report.kept_bytes), "remove some with \"slipway rmi\"");
            return 0;
        };
    });
}

}  // namespace slipway::cli
