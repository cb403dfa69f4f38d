// slipway verify: is an image what somebody who is trusted has signed.
// Must not: change anything.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/signing.hpp"
#include "slipway/runtime/trust.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string image, auth_file, store;
    std::vector<std::string> keys, authorities;
    bool verify_tls = true, json = false;
};

image::Places places_of(const Options& options, bool tls_chosen) {
    image::Places places{chosen_store(options.store), {}};
    places.registry.auth_file = options.auth_file;
    if (tls_chosen) places.registry.verify_tls = options.verify_tls;
    return places;
}

std::string as_text(const std::string& image, const image::SignatureReport& report) {
    std::string text =
        fmt::format("{:<10} {}\n{:<10} {}\n{:<10} {}\n", "image", image, "digest",
                    report.digest.text(), "checked",
                    report.layers_checked
                        ? human_bytes(report.content_bytes)
                        : "the manifest; its layers were not fetched, and are checked when pulled");
    for (const auto& signer : report.signers) text += fmt::format("{:<10} {}\n", "signed", signer);
    for (const auto& other : report.others) text += fmt::format("{:<10} {}\n", "ignored", other);
    return text;
}

Json as_json(const std::string& image, const image::SignatureReport& report) {
    return {{"image", image},
            {"digest", report.digest.text()},
            {"content_bytes", report.content_bytes},
            {"layers_checked", report.layers_checked},
            {"signers", report.signers},
            {"ignored", report.others}};
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("verify", "Check an image against its signatures");
    auto options = std::make_shared<Options>();
    command
        ->add_option("image", options->image,
                     "FILE.sqfs, oci:DIR[:TAG], oci-archive:FILE, a stored name or docker://REF")
        ->required();
    command
        ->add_option("--key", options->keys,
                     "public key to believe (PEM; default: those of the trust.d directories)")
        ->allow_extra_args(false);
    command
        ->add_option("--ca", options->authorities, "authority whose certificates to believe (PEM)")
        ->allow_extra_args(false);
    command->add_flag("--json", options->json, "as JSON");
    command->add_option("--authfile", options->auth_file, "file with the registry's credentials");
    auto* tls = command->add_option("--tls-verify", options->verify_tls,
                                    "false: accept any certificate, and plain http");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, tls, &action] {
        action = [options, tls] {
            auto files = options->keys;
            files.insert(files.end(), options->authorities.begin(), options->authorities.end());
            const auto trusted = runtime::trusted_keys(files);
            const auto report = image::verify_image(image::parse_image_ref(options->image), trusted,
                                                    places_of(*options, tls->count() > 0));
            print(options->json ? to_text(as_json(options->image, report), 2) + "\n"
                                : as_text(options->image, report));
            return 0;
        };
    });
}

}  // namespace slipway::cli
