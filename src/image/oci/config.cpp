// The OCI image configuration between JSON and our types.
// Must not: drop members of "config" that it does not know.
#include "slipway/image/config.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace slipway::image {
namespace {

constexpr std::string_view kKnownMembers[] = {"Env",          "Entrypoint", "Cmd",   "Shell",
                                              "OnBuild",      "WorkingDir", "User",  "Volumes",
                                              "ExposedPorts", "StopSignal", "Labels"};

/// The keys of an object used as a set ({"80/tcp": {}}), sorted; also a list, as some tools write.
std::vector<std::string> keys_of(const Json& object, const char* key, const std::string& subject) {
    std::vector<std::string> keys;
    auto it = object.find(key);
    if (it == object.end() || it->is_null()) return keys;
    if (it->is_array()) {
        keys = json_strings(object, key, subject);
    } else if (it->is_object()) {
        for (const auto& [name, value] : it->items()) keys.push_back(name);
    } else {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{}: \"{}\" is neither an object nor a list", subject, key));
    }
    std::sort(keys.begin(), keys.end());
    return keys;
}

/// A list of words, or one word (as old Docker versions wrote Entrypoint).
std::vector<std::string> words_of(const Json& object, const char* key, const std::string& subject) {
    auto it = object.find(key);
    if (it != object.end() && it->is_string()) return {it->get<std::string>()};
    return json_strings(object, key, subject);
}

void read_run_config(const Json& json, ImageConfig& config, const std::string& subject) {
    for (const std::string& line : json_strings(json, "Env", subject)) {
        size_t equals = line.find('=');
        if (equals == 0) {
            throw Error(ErrorKind::invalid_image, fmt::format("{}: {} is no environment variable",
                                                              subject, slipway::quoted(line)));
        }
        config.set_env(line.substr(0, equals),
                       equals == std::string::npos ? "" : line.substr(equals + 1));
    }
    config.entrypoint = words_of(json, "Entrypoint", subject);
    config.cmd = words_of(json, "Cmd", subject);
    config.shell = json_strings(json, "Shell", subject);
    config.on_build = json_strings(json, "OnBuild", subject);
    config.working_dir = json_string(json, "WorkingDir", subject);
    config.user = json_string(json, "User", subject);
    config.stop_signal = json_string(json, "StopSignal", subject);
    config.exposed_ports = keys_of(json, "ExposedPorts", subject);
    config.volumes = keys_of(json, "Volumes", subject);
    if (auto labels = json.find("Labels"); labels != json.end() && !labels->is_null()) {
        if (!labels->is_object()) {
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{}: \"Labels\" is not an object", subject));
        }
        for (const auto& [key, value] : labels->items()) {
            config.labels[key] = json_string(*labels, key.c_str(), subject);
        }
    }
    for (const auto& [key, value] : json.items()) {
        if (std::ranges::find(kKnownMembers, key) == std::end(kKnownMembers))
            config.unknown[key] = value;
    }
}

HistoryEntry read_history(const Json& json, const std::string& subject) {
    HistoryEntry entry;
    entry.created = json_string(json, "created", subject);
    entry.created_by = json_string(json, "created_by", subject);
    entry.comment = json_string(json, "comment", subject);
    auto empty = json.find("empty_layer");
    entry.empty_layer = empty != json.end() && empty->is_boolean() && empty->get<bool>();
    return entry;
}

Json as_set(const std::vector<std::string>& keys) {
    Json object = Json::object();
    for (const std::string& key : keys) object[key] = Json::object();
    return object;
}

Json run_config_to_json(const ImageConfig& config) {
    Json json = config.unknown.is_object() ? config.unknown : Json::object();
    auto put = [&json](const char* key, const auto& value) {
        if (!value.empty()) json[key] = value;
    };
    put("Env", config.env);
    put("Entrypoint", config.entrypoint);
    put("Cmd", config.cmd);
    put("Shell", config.shell);
    put("OnBuild", config.on_build);
    put("WorkingDir", config.working_dir);
    put("User", config.user);
    put("StopSignal", config.stop_signal);
    put("Labels", config.labels);
    if (!config.exposed_ports.empty()) json["ExposedPorts"] = as_set(config.exposed_ports);
    if (!config.volumes.empty()) json["Volumes"] = as_set(config.volumes);
    return json;
}

Json history_to_json(const HistoryEntry& entry) {
    Json json = Json::object();
    if (!entry.created.empty()) json["created"] = entry.created;
    if (!entry.created_by.empty()) json["created_by"] = entry.created_by;
    if (!entry.comment.empty()) json["comment"] = entry.comment;
    if (entry.empty_layer) json["empty_layer"] = true;
    return json;
}

}  // namespace

void ImageConfig::set_env(const std::string& key, const std::string& value) {
    for (std::string& line : env) {
        if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == '=') {
            line = key + "=" + value;
            return;
        }
    }
    env.push_back(key + "=" + value);
}

std::optional<std::string> ImageConfig::get_env(const std::string& key) const {
    for (const std::string& line : env) {
        if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == '=') {
            return line.substr(key.size() + 1);
        }
    }
    return std::nullopt;
}

void ImageConfig::become_one_layer(const Digest& diff_id) {
    if (diff_ids.size() == 1 && diff_ids[0] == diff_id) return;
    diff_ids = {diff_id};
    if (history.empty()) return;
    for (HistoryEntry& entry : history) entry.empty_layer = true;
    history.push_back({created, "slipway convert", "the layers above as one", false});
}

ImageConfig config_from_json(const Json& json, const std::string& subject) {
    ImageConfig config;
    config.architecture = json_string(json, "architecture", subject);
    if (const auto variant = json.find("variant"); variant != json.end() && variant->is_string())
        config.variant = variant->get<std::string>();
    config.os = json_string(json, "os", subject);
    config.created = json_string(json, "created", subject);
    if (auto run = json.find("config"); run != json.end() && !run->is_null()) {
        if (!run->is_object()) {
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{}: \"config\" is not an object", subject));
        }
        read_run_config(*run, config, subject);
    }
    if (auto rootfs = json.find("rootfs"); rootfs != json.end() && !rootfs->is_null()) {
        for (const std::string& text : json_strings(*rootfs, "diff_ids", subject)) {
            config.diff_ids.push_back(Digest::parse(text));
        }
    }
    if (auto history = json.find("history"); history != json.end() && history->is_array()) {
        for (const Json& item : *history) config.history.push_back(read_history(item, subject));
    }
    return config;
}

ImageConfig config_in_image(std::string_view text, const std::string& subject, ConfigScope scope) {
    constexpr std::string_view kNotForRuns[] = {kOwnMember, "history", "rootfs"};
    const std::span skipped(kNotForRuns, scope == ConfigScope::to_run ? std::size(kNotForRuns) : 1);
    return config_from_json(parse_json_without(skipped, text, subject), subject);
}

Json config_to_json(const ImageConfig& config) {
    Json json = Json::object();
    json["architecture"] = config.architecture;
    if (!config.variant.empty()) json["variant"] = config.variant;
    json["os"] = config.os;
    if (!config.created.empty()) json["created"] = config.created;
    json["config"] = run_config_to_json(config);
    Json diff_ids = Json::array();
    for (const Digest& digest : config.diff_ids) diff_ids.push_back(digest.text());
    json["rootfs"] = {{"type", "layers"}, {"diff_ids", diff_ids}};
    if (!config.history.empty()) {
        json["history"] = Json::array();
        for (const HistoryEntry& entry : config.history) {
            json["history"].push_back(history_to_json(entry));
        }
    }
    return json;
}

}  // namespace slipway::image
