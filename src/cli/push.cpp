// slipway push: an image or artifact into a registry.
// Must not: know how registries talk.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/registry.hpp"
#include "slipway/image/signing.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string source;
    std::string reference;
    image::RegistryAccess access;
    std::string platform;
    std::string store;
    bool artifact = false;
    bool all_platforms = false;
    bool verify_tls = true;
    bool no_signatures = false;
    bool json = false;
};

/// A directory, squashfs or SIF has no layers: it is stored as one, under the name that it will
/// have.
image::OciImage as_layers(const image::ImageRef& ref, const Options& options,
                          const image::Store& store) {
    const std::string name = image::stored_name_of(options.reference);
    const auto report = image::convert(ref.text, "store:" + name, store, {}, options.platform);
    log::info("{}", report.text);
    return store.get(name);
}

/// What is pushed as a file: a data pack, a stored artifact, and what was asked to be.
std::optional<image::Artifact> as_artifact(const image::ImageRef& ref, const Options& options,
                                           const image::Store& store) {
    using image::RefKind;
    if (ref.kind == RefKind::stored)
        if (auto artifact = image::find_artifact(store, ref.name)) return artifact;
    const bool pack = ref.kind == RefKind::squashfs && image::is_data_pack(ref.path);
    if (!pack && !options.artifact) return std::nullopt;
    return image::make_artifact(ref);
}

/// Send the image's signatures; returns how many.
size_t push_signatures(const Options& options, const image::OciImage& image, const Digest& pushed) {
    if (options.no_signatures) return 0;
    const auto signatures =
        image::push_signatures(image, options.reference, pushed, options.access);
    for (const Digest& index : signatures.left_behind)
        log::info("the signatures of the index {} stay behind: one of its images was pushed",
                  index.text());
    return signatures.sent;
}

image::PushResult push(const Options& options, const image::Store& store) {
    auto ref = image::parse_image_ref(options.source);
    ref.platform = options.platform;
    if (options.all_platforms)
        return image::push_index(ref, options.reference, store, options.access,
                                 !options.no_signatures);
    if (const auto artifact = as_artifact(ref, options, store))
        return image::push_artifact(*artifact, options.reference, store, options.access);
    using image::RefKind;
    const bool tree =
        ref.kind == RefKind::directory || ref.kind == RefKind::squashfs || ref.kind == RefKind::sif;
    const auto image =
        tree ? as_layers(ref, options, store)
             : image::open_layered(ref, store,
                                   options.no_signatures ? image::SignaturesWanted::none
                                                         : image::SignaturesWanted::all);
    auto pushed = image::push_image(image, options.reference, store, options.access);
    pushed.signatures = push_signatures(options, image, pushed.manifest_digest);
    return pushed;
}

}  // namespace

void add_push(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("push", "Put an image or artifact into a registry");
    auto options = std::make_shared<Options>();
    command->footer("REFERENCE is [docker://][HOST[:PORT]/]REPOSITORY[:TAG].");
    command->add_option("source", options->source, "any image reference, or a data pack")
        ->required();
    command->add_option("reference", options->reference, "where to")->required();
    auto* artifact =
        command->add_flag("--artifact", options->artifact,
                          "push a squashfs or SIF file as it is, not as an image of layers");
    auto* all = command
                    ->add_flag("--all-platforms", options->all_platforms,
                               "push an OCI layout's or archive's whole index, byte for byte")
                    ->excludes(artifact);
    command
        ->add_option("--platform", options->platform,
                     "OS/ARCH[/VARIANT] of an image of several (default: this machine's)")
        ->excludes(all);
    command->add_option("--authfile", options->access.auth_file,
                        "file with the registry's credentials");
    auto* verify = command->add_option("--tls-verify", options->verify_tls,
                                       "false: accept any certificate, and plain http");
    command->add_flag("--no-signatures", options->no_signatures, "leave its signatures behind");
    command->add_flag("--json", options->json, "print what was pushed as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, verify, &action] {
        action = [options, verify] {
            const auto store = image::Store::open(chosen_store(options->store));
            if (!options->platform.empty())
                options->platform = image::normalize_platform(options->platform);
            if (verify->count() > 0) options->access.verify_tls = options->verify_tls;
            image::stored_name_of(options->reference);  // a wrong name is told before the work
            const auto pushed = push(*options, store);
            log::info("pushed {} ({} uploaded{})", options->reference,
                      human_bytes(pushed.uploaded_bytes),
                      pushed.signatures > 0 ? fmt::format(", with {} signatures", pushed.signatures)
                                            : "");
            if (options->json)
                print(to_text(Json{{"manifest_digest", pushed.manifest_digest.text()},
                                   {"uploaded_bytes", pushed.uploaded_bytes},
                                   {"signatures", pushed.signatures}},
                              2) +
                      "\n");
            return 0;
        };
    });
}

}  // namespace slipway::cli
