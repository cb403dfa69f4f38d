// The build cache: what a step with a given key gave.
// Must not: decide what a key depends on (the planner does).
#include "step_cache.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::builder {

StepCache::StepCache(const image::Store& store)
    : store_(store), directory_(store.subdirectory("cache")) {}

std::string StepCache::path_of(const std::string& key) const {
    return join_path(directory_, "step-" + key + ".json");
}

std::optional<StepResult> StepCache::find(const std::string& key) const {
    const std::string path = path_of(key);
    if (!sys::stat_if_exists(AT_FDCWD, path)) return std::nullopt;
    try {
        const Json json = parse_json(read_file(path), path);
        StepResult result;
        result.created = json_string(json, "created", path);
        if (json.contains("layer")) {
            const Json& layer = json["layer"];
            result.layer = image::Layer{Digest::parse(json_string(layer, "digest", path)),
                                        Digest::parse(json_string(layer, "diff_id", path)),
                                        layer.at("size").get<uint64_t>(),
                                        json_string(layer, "media_type", path)};
            if (!store_.has_blob(result.layer->digest)) return std::nullopt;
        }
        return result;
    } catch (const std::exception& error) {
        log::verbose("the cache entry {} cannot be read: {}", path, error.what());
        return std::nullopt;
    }
}

void StepCache::save(const std::string& key, const std::string& text,
                     const StepResult& result) const {
    Json json = {{"step", text}, {"created", result.created}};
    if (result.layer)
        json["layer"] = {{"digest", result.layer->digest.text()},
                         {"diff_id", result.layer->diff_id.text()},
                         {"size", result.layer->size_bytes},
                         {"media_type", result.layer->media_type}};
    write_file_atomic(path_of(key), to_text(json));
}

}  // namespace slipway::builder
