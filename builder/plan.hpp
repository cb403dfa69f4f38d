// The plan of a build: every step decided, before anything is done.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recipe.hpp"
#include "slipway/base/json.hpp"
#include "slipway/image/config.hpp"
#include "slipway/image/layer.hpp"

namespace slipway::builder {

/// RUN --mount, understood.
struct MountAction {
    enum class Type { bind, cache, tmpfs } type = Type::bind;
    std::string target;  ///< absolute
    std::string source;  ///< bind: path in the context or in from_step
    std::optional<size_t> from_step;
    bool read_only = true;
    std::string cache_id;
    bool exclusive = false;  ///< sharing=locked
    uint32_t mode = 0755;
    std::string content;  ///< bind: digest of what is mounted
};

struct RunAction {
    std::vector<std::string> argv;
    std::vector<std::string> environment;  ///< "K=V": ENV and ARG; HOME is added when it runs
    std::string working_directory;
    std::string user;  ///< USER as it stands here
    bool network = true;
    std::vector<MountAction> mounts;
    std::vector<InlineFile> scripts;  ///< files at /dev/pipes/NAME
};

struct CopyAction {
    bool add = false;
    std::vector<std::string> sources;
    std::vector<InlineFile> inline_files;  ///< already expanded
    std::string destination;               ///< absolute; ends with "/" if it was written so
    std::optional<size_t> from_step;       ///< else the context
    std::string chown, chmod;
    std::vector<std::string> exclude;
    bool parents = false;
    bool unpack = false;  ///< ADD: archives become their contents
    std::string content;  ///< digest of what is copied (of the context)
};

struct Step {
    enum class Kind { base, run, copy, workdir, config, preload };
    size_t id = 0;
    std::optional<size_t> parent;
    Kind kind = Kind::config;
    std::string key;   ///< names the layers up to here: equal keys, equal contents
    std::string text;  ///< as the user wrote it, expanded only for preload
    Place place;
    size_t stage = 0;
    image::ImageConfig config;  ///< after this step; layers and history are added when it is done

    std::string image;  ///< base: the name, "" = scratch
    RunAction run;
    CopyAction copy;
    std::string directory;  ///< workdir: absolute path; preload: the bundle's name
    bool makes_layer() const { return kind != Kind::base && kind != Kind::config; }
};

struct BuildPlan {
    std::vector<Step> steps;  ///< in the order of execution
    size_t target = 0;        ///< the step whose result is the image
    std::vector<std::string> warnings;
    std::optional<int64_t> source_date_epoch;
};

struct PlanRequest {
    std::map<std::string, std::string> build_args;
    std::string target;  ///< stage name or number, "" = the last
    std::optional<int64_t> source_date_epoch;
    bool network = true;
    std::string platform;              ///< "linux/amd64": this machine's
    std::vector<std::string> preload;  ///< names of bundles
};

struct BaseFacts {
    image::ImageConfig config;
    std::vector<image::Layer> layers;
};
/// What the planner asks about the world; the functions throw for what is not there.
struct PlanFacts {
    std::function<BaseFacts(const std::string& name)> base;
    /// Digest over names, modes and contents of what COPY would take from the context.
    std::function<std::string(const CopyAction&)> context_content;
    std::function<std::string(const std::string& bundle)> preload_content;
};

/// Decide everything. Pure but for the questions in `facts`.
/// Throws: Error(invalid_recipe), Error(unsupported) with the line.
BuildPlan plan_steps(const Recipe& recipe, const PlanRequest& request, const PlanFacts& facts);

Json to_json(const BuildPlan& plan);

inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

}  // namespace slipway::builder
