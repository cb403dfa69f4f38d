// slipway inspect: what an image says of itself.
// Must not: change anything.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/registry.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string image;
    std::string store;
    std::string platform;
    std::string artifact_type;
    bool referrers = false, json = false;
};

/// What lies in the registry about an image, one line each.
void print_referrers(const Options& options) {
    const auto ref = image::parse_image_ref(options.image);
    if (ref.kind != image::RefKind::registry)
        throw Error(ErrorKind::usage, fmt::format("--referrers asks a registry, and {} is in none",
                                                  slipway::quoted(options.image)))
            .hint("name the image as docker://HOST/REPOSITORY:TAG");
    Json list = Json::array();
    std::string text;
    for (const auto& one : image::referrers_of(ref.name, options.artifact_type)) {
        const std::string& kind = one.artifact_type.empty() ? one.media_type : one.artifact_type;
        text += fmt::format("{}  {:>10}  {}{}\n", one.digest.text(), human_bytes(one.size_bytes),
                            kind, one.tag.empty() ? "" : "  " + one.tag);
        list.push_back({{"digest", one.digest.text()},
                        {"media_type", one.media_type},
                        {"artifact_type", one.artifact_type},
                        {"tag", one.tag},
                        {"size_bytes", one.size_bytes}});
    }
    print(options.json ? to_text(list, 2) + "\n" : text);
}

Json layer_list(const image::OciImage& image) {
    Json layers = Json::array();
    for (const auto& layer : image.layers)
        layers.push_back({{"digest", layer.digest.text()},
                          {"diff_id", layer.diff_id.text()},
                          {"size_bytes", layer.size_bytes},
                          {"media_type", layer.media_type}});
    return layers;
}

Json facts_of_squashfs(const image::ImageRef& ref) {
    const auto file = image::open_squashfs_file(ref);
    const auto info = file.image->info();
    for (const auto& warning : file.warnings) log::warning("{}", warning);
    Json facts{{"compressor", info.codec},
               {"block_size_bytes", info.block_size_bytes},
               {"inodes", info.inodes},
               {"size_bytes", info.bytes_used}};
    if (file.offset_bytes != 0) facts["offset_bytes"] = file.offset_bytes;
    if (file.config) facts["config"] = image::config_to_json(*file.config);
    return facts;
}

Json facts_of_directory(const image::ImageRef& ref) {
    Json facts = Json::object();
    if (const auto text = Root(ref.path).read_file_if_exists(image::kConfigPathInImage))
        facts["config"] = parse_json(*text, join_path(ref.path, image::kConfigPathInImage));
    return facts;
}

Json facts_of_layers(const image::OciImage& image) {
    Json facts{{"config", image::config_to_json(image.config)},
               {"config_digest", image.config_digest.text()},
               {"layers", layer_list(image)}};
    if (!image.manifest_digest.empty()) facts["manifest_digest"] = image.manifest_digest.text();
    return facts;
}

Json facts_of_artifact(const image::Artifact& artifact) {
    Json files = Json::array();
    for (const auto& file : artifact.files)
        files.push_back({{"title", file.title},
                         {"digest", file.digest.text()},
                         {"size_bytes", file.size_bytes},
                         {"media_type", file.media_type}});
    return {{"artifact_kind", image::to_string(artifact.kind)},
            {"artifact_type", artifact.type},
            {"manifest_digest", artifact.manifest_digest.text()},
            {"annotations", artifact.annotations},
            {"files", files}};
}

Json facts_of_content(const image::Content& content) {
    if (content.artifact) return facts_of_artifact(*content.artifact);
    return content.image ? facts_of_layers(*content.image) : Json::object();
}

Json facts_of_registry(const image::ImageRef& ref) {
    const auto found = image::look_at_reference(ref.name, ref.platform);
    Json facts = facts_of_content(found.content);
    if (found.index_digest.empty()) return facts;
    facts["index_digest"] = found.index_digest.text();
    facts["platforms"] = Json::array();
    for (const auto& platform : found.platforms)
        facts["platforms"].push_back(
            {{"platform", platform.name}, {"manifest_digest", platform.manifest_digest.text()}});
    return facts;
}

/// A stored artifact that is a squashfs file has what such a file tells, too.
Json facts_of_stored(const image::ImageRef& ref, const image::Store& store) {
    const auto artifact = image::find_artifact(store, ref.name);
    if (!artifact) return facts_of_layers(image::open_layered(ref, store));
    Json facts = facts_of_artifact(*artifact);
    if (artifact->kind != image::ArtifactKind::other)
        facts.update(facts_of_squashfs(image::file_of(*artifact, ref, store)));
    return facts;
}

Json facts_of(const image::ImageRef& ref, const std::string& store) {
    Json facts;
    switch (ref.kind) {
        case image::RefKind::squashfs:
        case image::RefKind::sif:
            facts = facts_of_squashfs(ref);
            break;
        case image::RefKind::directory:
        case image::RefKind::host:
            facts = facts_of_directory(ref);
            break;
        case image::RefKind::registry:
            facts = facts_of_registry(ref);
            break;
        case image::RefKind::stored:
            facts = facts_of_stored(ref, image::Store::open(store));
            break;
        default:
            facts = facts_of_layers(image::open_layered(ref, image::Store::open(store)));
    }
    facts["image"] = ref.text;
    facts["kind"] = image::to_string(ref.kind);
    return facts;
}

void add_list(std::string& text, const char* label, const Json& values) {
    if (!values.is_array()) return;
    for (const auto& value : values)
        text += fmt::format("{:<15} {}\n", label,
                            value.is_string() ? value.get<std::string>() : to_text(value));
}

std::string as_text(const Json& facts) {
    std::string text =
        fmt::format("{:<15} {}\n{:<15} {}\n", "image", facts["image"].get<std::string>(), "kind",
                    facts["kind"].get<std::string>());
    for (const char* key : {"artifact_kind", "artifact_type", "index_digest", "config_digest",
                            "manifest_digest", "compressor"})
        if (facts.contains(key))
            text += fmt::format("{:<15} {}\n", key, facts[key].get<std::string>());
    const Json platforms = facts.value("platforms", Json::array());
    for (const auto& platform : platforms)
        text += fmt::format("{:<15} {} ({})\n", "platform", platform["platform"].get<std::string>(),
                            platform["manifest_digest"].get<std::string>());
    const Json files = facts.value("files", Json::array());
    for (const auto& file : files)
        text += fmt::format(
            "{:<15} {} ({}, {})\n", "file", slipway::quoted(file["title"].get<std::string>()),
            human_bytes(file["size_bytes"].get<uint64_t>()), file["digest"].get<std::string>());
    const Json annotations = facts.value("annotations", Json::object());
    for (const auto& [key, value] : annotations.items())
        text += fmt::format("{:<15} {}={}\n", "annotation", slipway::quoted(key),
                            slipway::quoted(value.get<std::string>()));
    if (facts.contains("size_bytes"))
        text +=
            fmt::format("{:<15} {}\n", "size", human_bytes(facts["size_bytes"].get<uint64_t>()));
    const Json layers = facts.value("layers", Json::array());
    for (const auto& layer : layers)
        text += fmt::format("{:<15} {} ({})\n", "layer", layer["diff_id"].get<std::string>(),
                            human_bytes(layer["size_bytes"].get<uint64_t>()));
    if (!facts.contains("config"))
        return facts.contains("platforms")     ? text + "no image for this machine among them\n"
               : facts.contains("annotations") ? text
                                               : text + "no configuration inside\n";
    const Json& document = facts["config"];
    for (const char* key : {"architecture", "os", "created"})
        if (document.contains(key))
            text += fmt::format("{:<15} {}\n", key, document[key].get<std::string>());
    const Json config = document.value("config", Json::object());
    add_list(text, "env", config.value("Env", Json::array()));
    for (const auto& [label, key] :
         {std::pair{"entrypoint", "Entrypoint"}, std::pair{"cmd", "Cmd"}})
        if (config.contains(key) && !config[key].is_null())
            text += fmt::format("{:<15} {}\n", label, to_text(config[key]));
    for (const auto& [label, key] : {std::pair{"workdir", "WorkingDir"}, std::pair{"user", "User"}})
        if (config.contains(key) && config[key].is_string() &&
            !config[key].get<std::string>().empty())
            text += fmt::format("{:<15} {}\n", label, config[key].get<std::string>());
    const Json labels = config.value("Labels", Json::object());
    for (const auto& [key, value] : labels.items())
        text += fmt::format("{:<15} {}={}\n", "label", key,
                            value.is_string() ? value.get<std::string>() : "");
    return text;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("inspect", "Show an image's configuration and layers");
    auto options = std::make_shared<Options>();
    command->add_option("image", options->image, "any image reference")->required();
    command->add_option("--platform", options->platform,
                        "OS/ARCH[/VARIANT] of an image of several (default: this machine's)");
    auto* referrers = command->add_flag("--referrers", options->referrers,
                                        "what a registry has about the image: signatures and such");
    command
        ->add_option("--artifact-type", options->artifact_type,
                     "with --referrers: of this type only")
        ->needs(referrers);
    command->add_flag("--json", options->json, "as JSON");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([options, &action] {
        action = [options] {
            if (options->referrers) {
                print_referrers(*options);
                return 0;
            }
            auto ref = image::parse_image_ref(options->image);
            if (!options->platform.empty())
                ref.platform = image::normalize_platform(options->platform);
            const Json facts = facts_of(ref, chosen_store(options->store));
            print(options->json ? to_text(facts, 2) + "\n" : as_text(facts));
            return 0;
        };
    });
}

}  // namespace slipway::cli
