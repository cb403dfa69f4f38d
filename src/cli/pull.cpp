// slipway pull: an image from a registry into the store.
// Must not: know how registries talk.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/registry.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string reference;
    std::string name;
    std::string auth_file;
    std::string store;
    bool verify_tls = true;
    bool json = false;
};

std::string as_json(const image::PullResult& pulled) {
    return to_text(Json{{"name", pulled.name},
                        {"manifest_digest", pulled.image.manifest_digest.text()},
                        {"config_digest", pulled.image.config_digest.text()},
                        {"downloaded_bytes", pulled.downloaded_bytes}},
                   2) +
           "\n";
}

}  // namespace

void add_pull(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("pull", "Bring an image from a registry into the store");
    auto options = std::make_shared<Options>();
    command->footer(
        "REFERENCE is [docker://][HOST[:PORT]/]REPOSITORY[:TAG][@DIGEST]; the host is docker.io if "
        "none is given.\nThe image is stored as HOST/REPOSITORY:TAG, or as NAME.");
    command->add_option("reference", options->reference, "the image")->required();
    command->add_option("-t,--tag", options->name, "name in the store");
    command->add_option("--authfile", options->auth_file, "file with the registry's credentials");
    auto* verify = command->add_option("--tls-verify", options->verify_tls,
                                       "false: accept any certificate, and plain http");
    command->add_flag("--json", options->json, "print what was stored as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, verify, &action] {
        action = [options, verify] {
            auto store = image::Store::open(chosen_store(options->store));
            image::PullOptions pull;
            pull.name = options->name;
            pull.access.auth_file = options->auth_file;
            if (verify->count() > 0) pull.access.verify_tls = options->verify_tls;
            const auto pulled = image::pull_image(options->reference, store, pull);
            if (pulled.downloaded_bytes == 0)
                log::info("{} is up to date", pulled.name);
            else
                log::info("stored {} ({} downloaded)", pulled.name,
                          human_bytes(pulled.downloaded_bytes));
            if (options->json) print(as_json(pulled));
            return 0;
        };
    });
}

}  // namespace slipway::cli
