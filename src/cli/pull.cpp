// slipway pull: an image or artifact from a registry into the store, or an artifact's files.
// Must not: know how registries talk.
#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/registry.hpp"
#include "slipway/image/signing.hpp"
#include "slipway/runtime/trust.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string reference;
    std::string output;
    image::PullOptions pull;
    std::string store;
    bool verify_tls = true;
    bool signatures = false, no_signatures = false;
    bool json = false;
};

std::string as_json(const image::PullResult& pulled) {
    const auto& artifact = pulled.artifact;
    const Digest& manifest = artifact ? artifact->manifest_digest : pulled.image.manifest_digest;
    const Digest& config = artifact ? artifact->config_digest : pulled.image.config_digest;
    return to_text(Json{{"name", pulled.name},
                        {"kind", artifact ? image::to_string(artifact->kind) : "image"},
                        {"artifact_type", artifact ? Json(artifact->type) : Json()},
                        {"manifest_digest", manifest.text()},
                        {"config_digest", config.text()},
                        {"downloaded_bytes", pulled.downloaded_bytes},
                        {"signatures", artifact ? 0 : image::count_signatures(pulled.image)}},
                   2) +
           "\n";
}

std::string as_json(const image::SaveResult& saved) {
    return to_text(Json{{"files", saved.files},
                        {"manifest_digest", saved.manifest_digest.text()},
                        {"downloaded_bytes", saved.downloaded_bytes}},
                   2) +
           "\n";
}

int pull_into_files(const Options& options, image::Store& store) {
    const auto saved = image::pull_files(options.reference, options.output, store, options.pull);
    for (const auto& file : saved.files) log::info("wrote {}", slipway::quoted(file));
    if (options.json) print(as_json(saved));
    return 0;
}

int pull_into_store(const Options& options, image::Store& store) {
    const auto pulled = image::pull_image(options.reference, store, options.pull);
    const std::string what =
        pulled.artifact
            ? fmt::format(", a{} {}",
                          pulled.artifact->kind == image::ArtifactKind::other ? "n" : "",
                          image::to_string(pulled.artifact->kind))
            : "";
    if (pulled.downloaded_bytes == 0)
        log::info("{} is up to date", pulled.name);
    else
        log::info("stored {}{} ({} downloaded)", pulled.name, what,
                  human_bytes(pulled.downloaded_bytes));
    if (options.json) print(as_json(pulled));
    return 0;
}

}  // namespace

void add_pull(CLI::App& app, Action& action) {
    auto* command =
        app.add_subcommand("pull", "Bring an image or artifact from a registry into the store");
    auto options = std::make_shared<Options>();
    command->footer(
        "REFERENCE is [docker://][HOST[:PORT]/]REPOSITORY[:TAG][@DIGEST]; the host is docker.io if "
        "none is given.\nThe image is stored as HOST/REPOSITORY:TAG, or as NAME.");
    command->add_option("reference", options->reference, "the image or artifact")->required();
    command->add_option("-t,--tag", options->pull.name, "name in the store");
    command->add_option("-o,--output", options->output,
                        "write an artifact's files: to this FILE, or into this DIRECTORY");
    command->add_option("--platform", options->pull.platform,
                        "OS/ARCH[/VARIANT] of an image of several (default: this machine's)");
    command->add_option("--authfile", options->pull.access.auth_file,
                        "file with the registry's credentials");
    auto* verify = command->add_option("--tls-verify", options->verify_tls,
                                       "false: accept any certificate, and plain http");
    auto* with = command->add_flag("--signatures", options->signatures,
                                   "fail where its signatures cannot be had; Sigstore bundles too");
    command->add_flag("--no-signatures", options->no_signatures, "do not ask for its signatures")
        ->excludes(with);
    command->add_flag("--json", options->json, "print what was stored as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, verify, &action] {
        action = [options, verify] {
            if (!options->pull.platform.empty())
                options->pull.platform = image::normalize_platform(options->pull.platform);
            if (verify->count() > 0) options->pull.access.verify_tls = options->verify_tls;
            auto store = image::Store::open(chosen_store(options->store));
            options->pull.signatures = options->signatures      ? image::SignaturesWanted::required
                                       : options->no_signatures ? image::SignaturesWanted::none
                                                                : runtime::signatures_wanted();
            return options->output.empty() ? pull_into_store(*options, store)
                                           : pull_into_files(*options, store);
        };
    });
}

}  // namespace slipway::cli
