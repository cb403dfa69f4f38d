// slipway push: an image into a registry.
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
    std::string source;
    std::string reference;
    std::string auth_file;
    std::string store;
    bool verify_tls = true;
    bool json = false;
};

/// A directory, squashfs or SIF has no layers: it is stored as one, under the name that it will
/// have.
image::OciImage open_source(const Options& options, const image::Store& store) {
    const auto ref = image::parse_image_ref(options.source);
    using image::RefKind;
    if (ref.kind != RefKind::directory && ref.kind != RefKind::squashfs && ref.kind != RefKind::sif)
        return image::open_layered(ref, store);
    const std::string name = image::stored_name_of(options.reference);
    const auto report = image::convert(options.source, "store:" + name, store, {});
    log::info("{}", report.text);
    return store.get(name);
}

}  // namespace

void add_push(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("push", "Put an image into a registry");
    auto options = std::make_shared<Options>();
    command->footer("REFERENCE is [docker://][HOST[:PORT]/]REPOSITORY[:TAG].");
    command->add_option("source", options->source, "any image reference")->required();
    command->add_option("reference", options->reference, "where to")->required();
    command->add_option("--authfile", options->auth_file, "file with the registry's credentials");
    auto* verify = command->add_option("--tls-verify", options->verify_tls,
                                       "false: accept any certificate, and plain http");
    command->add_flag("--json", options->json, "print what was pushed as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, verify, &action] {
        action = [options, verify] {
            const auto store = image::Store::open(chosen_store(options->store));
            image::RegistryAccess access;
            access.auth_file = options->auth_file;
            if (verify->count() > 0) access.verify_tls = options->verify_tls;
            image::stored_name_of(options->reference);  // a wrong name is told before the work
            const auto image = open_source(*options, store);
            const auto pushed = image::push_image(image, options->reference, store, access);
            log::info("pushed {} ({} uploaded)", options->reference,
                      human_bytes(pushed.uploaded_bytes));
            if (options->json)
                print(to_text(Json{{"manifest_digest", pushed.manifest_digest.text()},
                                   {"uploaded_bytes", pushed.uploaded_bytes}},
                              2) +
                      "\n");
            return 0;
        };
    });
}

}  // namespace slipway::cli
