// An image's configuration: what the OCI image specification calls config, in our types.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/base/digest.hpp"
#include "slipway/base/json.hpp"

namespace slipway::image {

struct HistoryEntry {
    std::string created;  ///< RFC 3339
    std::string created_by;
    std::string comment;
    bool empty_layer = false;
};

/// Source: opencontainers/image-spec config.md. Members absent from the JSON are empty here.
struct ImageConfig {
    std::string architecture = "amd64";
    std::string variant;  ///< of the architecture, "v7"
    std::string os = "linux";
    std::string created;           ///< RFC 3339
    std::vector<std::string> env;  ///< "KEY=VALUE", in order, one per key
    std::vector<std::string> entrypoint;
    std::vector<std::string> cmd;
    std::vector<std::string> shell;  ///< Docker's extension; empty = {"/bin/sh", "-c"}
    std::vector<std::string> on_build;
    std::string working_dir;
    std::string user;
    std::string stop_signal;
    std::vector<std::string> exposed_ports;  ///< "80/tcp", sorted
    std::vector<std::string> volumes;        ///< sorted
    std::map<std::string, std::string> labels;
    std::vector<Digest> diff_ids;  ///< of the layers, base first
    std::vector<HistoryEntry> history;
    Json unknown =
        Json::object();  ///< members of "config" that we do not know, kept for round trips

    /// Set KEY to VALUE, keeping the place of an existing KEY.
    void set_env(const std::string& key, const std::string& value);
    std::optional<std::string> get_env(const std::string& key) const;
    /// Say that the layers became one: its diff id instead of theirs; of the history's entries,
    /// which all stay, only a new last one has a layer.
    void become_one_layer(const Digest& diff_id);
};

/// Throws: Error(invalid_image) naming `subject`.
ImageConfig config_from_json(const Json& json, const std::string& subject);
/// How much of it: to run needs neither history nor layers, which take most of the time to read.
enum class ConfigScope { all, to_run };
/// The same of the text at kConfigPathInImage.
ImageConfig config_in_image(std::string_view text, const std::string& subject,
                            ConfigScope scope = ConfigScope::all);
/// The OCI config document; the same config gives the same bytes.
Json config_to_json(const ImageConfig& config);

/// Where an image's config document lies inside a squashfs image or image directory written by us.
inline constexpr const char* kConfigPathInImage = ".slipway/image.json";
/// The document's one member that is not OCI's: what lies in the image that was not in its layers.
inline constexpr const char* kOwnMember = "slipway";

}  // namespace slipway::image
