// The plan of a build as JSON, for --dry-run and golden tests.
// Must not: decide anything.
#include "plan.hpp"

namespace slipway::builder {

namespace {

const char* kind_name(Step::Kind kind) {
    switch (kind) {
        case Step::Kind::base:
            return "base";
        case Step::Kind::run:
            return "run";
        case Step::Kind::copy:
            return "copy";
        case Step::Kind::workdir:
            return "workdir";
        case Step::Kind::config:
            return "config";
        case Step::Kind::preload:
            return "preload";
    }
    return "";
}

Json details(const Step& step) {
    if (step.kind == Step::Kind::base)
        return {{"image", step.image.empty() ? "scratch" : step.image}};
    if (step.kind == Step::Kind::run) {
        Json mounts = Json::array();
        for (const MountAction& mount : step.run.mounts)
            mounts.push_back({{"target", mount.target}, {"read_only", mount.read_only}});
        return {{"argv", step.run.argv},
                {"environment", step.run.environment},
                {"working_directory", step.run.working_directory},
                {"user", step.run.user},
                {"network", step.run.network},
                {"mounts", mounts}};
    }
    if (step.kind == Step::Kind::copy) {
        Json copy = {{"sources", step.copy.sources}, {"destination", step.copy.destination}};
        for (const InlineFile& file : step.copy.inline_files) copy["files"].push_back(file.name);
        if (step.copy.from_step) copy["from_step"] = *step.copy.from_step;
        if (!step.copy.chown.empty()) copy["chown"] = step.copy.chown;
        if (!step.copy.chmod.empty()) copy["chmod"] = step.copy.chmod;
        return copy;
    }
    if (!step.directory.empty()) return {{"directory", step.directory}};
    return Json::object();
}

}  // namespace

Json to_json(const BuildPlan& plan) {
    Json steps = Json::array();
    for (const Step& step : plan.steps) {
        Json entry = {{"id", step.id},           {"kind", kind_name(step.kind)},
                      {"key", step.key},         {"text", step.text},
                      {"stage", step.stage},     {"line", step.place.first_line},
                      {"details", details(step)}};
        if (step.parent) entry["parent"] = *step.parent;
        steps.push_back(std::move(entry));
    }
    const image::ImageConfig& config = plan.steps[plan.target].config;
    return {{"steps", steps},
            {"target", plan.target},
            {"config",
             {{"env", config.env},
              {"entrypoint", config.entrypoint},
              {"cmd", config.cmd},
              {"working_dir", config.working_dir},
              {"user", config.user},
              {"labels", config.labels}}},
            {"warnings", plan.warnings}};
}

}  // namespace slipway::builder
