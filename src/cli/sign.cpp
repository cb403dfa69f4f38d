// slipway sign: put a signature on an image.
// Must not: know how signatures are kept.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/signing.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string image, key, certificate, auth_file, store;
    bool verify_tls = true;
};

}  // namespace

void add_sign(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("sign", "Sign an image");
    auto options = std::make_shared<Options>();
    command
        ->add_option("image", options->image,
                     "FILE.sqfs, oci:DIR[:TAG], a stored name or docker://REF")
        ->required();
    command
        ->add_option("--key", options->key,
                     "private key (PEM: Ed25519 or ECDSA on P-256); its password: "
                     "$SLIPWAY_KEY_PASSWORD")
        ->required();
    command->add_option("--cert", options->certificate,
                        "certificate of the key, with those that lead to its authority (PEM)");
    command->add_option("--authfile", options->auth_file, "file with the registry's credentials");
    auto* verify = command->add_option("--tls-verify", options->verify_tls,
                                       "false: accept any certificate, and plain http");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, verify, &action] {
        action = [options, verify] {
            const image::SigningKey key(options->key, options->certificate);
            image::Places places{chosen_store(options->store), {}};
            places.registry.auth_file = options->auth_file;
            if (verify->count() > 0) places.registry.verify_tls = options->verify_tls;
            const auto report =
                image::sign_image(image::parse_image_ref(options->image), key, places);
            log::info("signed {} ({}) with the key {}", options->image, report.digest.text(),
                      key.id().text());
            return 0;
        };
    });
}

}  // namespace slipway::cli
