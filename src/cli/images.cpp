// slipway images: what the store holds.
// Must not: know how the store lies on disk.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "command.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/store.hpp"

namespace slipway::cli {
namespace {

struct ImagesOptions {
    std::string store;
    bool json = false;
};

std::string as_json(const std::vector<image::StoredImage>& images) {
    Json list = Json::array();
    for (const auto& image : images)
        list.push_back(
            {{"name", image.name},
             {"kind", image.kind},
             {"artifact_type", image.artifact_type.empty() ? Json() : Json(image.artifact_type)},
             {"manifest_digest", image.manifest_digest.text()},
             {"config_digest", image.config_digest.text()},
             {"size_bytes", image.size_bytes},
             {"layers", image.layers},
             {"architecture", image.architecture},
             {"squashfs", image.squashfs.empty() ? Json() : Json(image.squashfs)},
             {"created", image.created}});
    return to_text(list, 2) + "\n";
}

std::string as_table(const std::vector<image::StoredImage>& images) {
    size_t width = 4;
    for (const auto& image : images) width = std::max(width, image.name.size());
    std::string text = fmt::format("{:<{}}  {:<12}  {:<8}  {:>10}  {}\n", "NAME", width, "IMAGE",
                                   "KIND", "SIZE", "CREATED");
    for (const auto& image : images) {
        // The config of artifacts is empty, and one for all.
        const Digest& id =
            image.artifact_type.empty() ? image.config_digest : image.manifest_digest;
        text += fmt::format("{:<{}}  {:<12}  {:<8}  {:>10}  {}\n", image.name, width,
                            id.hex().substr(0, 12), image.kind, human_bytes(image.size_bytes),
                            image.created);
    }
    return text;
}

}  // namespace

void add_images(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("images", "List the stored images");
    auto options = std::make_shared<ImagesOptions>();
    command->add_flag("--json", options->json, "as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            const auto images = image::Store::open(chosen_store(options->store)).list();
            print(options->json ? as_json(images) : as_table(images));
            return 0;
        };
    });
}

}  // namespace slipway::cli
