// slipway sign: put a signature on an image.
// Must not: know how signatures are kept.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string image, key, certificate;
};

}  // namespace

void add_sign(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("sign", "Sign an image");
    auto options = std::make_shared<Options>();
    command->add_option("image", options->image, "FILE.sqfs or oci:DIR[:TAG]")->required();
    command
        ->add_option("--key", options->key,
                     "private key (PEM: Ed25519 or ECDSA on P-256); its password: "
                     "$SLIPWAY_KEY_PASSWORD")
        ->required();
    command->add_option("--cert", options->certificate,
                        "certificate of the key, with those that lead to its authority (PEM)");
    command->callback([options, &action] {
        action = [options] {
            const image::SigningKey key(options->key, options->certificate);
            const auto report = image::sign_image(image::parse_image_ref(options->image), key);
            log::info("signed {} ({}) with the key {}", options->image, report.digest.text(),
                      key.id().text());
            return 0;
        };
    });
}

}  // namespace slipway::cli
