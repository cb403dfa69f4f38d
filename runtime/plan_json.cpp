// A plan as JSON, for --dry-run, for golden tests and, with its reasons, for explain.
// Must not: leave out a member of the plan that has an effect.
#include "plan_names.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

const char* name_of(MountStep::Kind kind) {
    switch (kind) {
        case MountStep::Kind::image_directory:
            return "image-directory";
        case MountStep::Kind::image_squashfs:
            return "image-squashfs";
        case MountStep::Kind::data_squashfs:
            return "data-squashfs";
        case MountStep::Kind::overlay:
            return "overlay";
        case MountStep::Kind::bind:
            return "bind";
        case MountStep::Kind::tmpfs:
            return "tmpfs";
        case MountStep::Kind::directory:
            return "directory";
        case MountStep::Kind::file:
            return "file";
    }
    return "?";
}

const char* name_of(MountStep::IfMissing policy) {
    switch (policy) {
        case MountStep::IfMissing::fail:
            return "fail";
        case MountStep::IfMissing::skip:
            return "skip";
        case MountStep::IfMissing::create:
            return "create";
    }
    return "?";
}

namespace {

Json to_json(const MountStep& step) {
    Json json = {{"kind", name_of(step.kind)},  {"destination", step.destination},
                 {"read_only", step.read_only}, {"if_missing", name_of(step.if_missing)},
                 {"recursive", step.recursive}, {"origin", step.origin}};
    if (!step.source.empty()) json["source"] = step.source;
    if (step.image_offset_bytes != 0) json["image_offset_bytes"] = step.image_offset_bytes;
    if (step.no_exec) json["no_exec"] = true;
    if (step.no_suid) json["no_suid"] = true;
    if (step.no_devices) json["no_devices"] = true;
    if (step.make_source) json["make_source"] = true;
    if (!step.seal.empty()) json["seal"] = step.seal;
    if (!step.identity.empty()) json["identity"] = step.identity;
    if (!step.options.empty()) json["options"] = step.options;
    if (!step.content.empty()) json["content"] = step.content;
    if (step.merge) json["merge"] = true;
    if (!step.fallback.empty()) json["fallback"] = step.fallback;
    return json;
}

Json to_json(const StageStep& step) {
    return {{"source", step.source},
            {"target", step.target},
            {"size_bytes", step.size_bytes},
            {"origin", step.origin}};
}

Json to_json(const EnvDecision& decision) {
    return {{"name", decision.name},
            {"value", decision.value ? Json(*decision.value) : Json(nullptr)},
            {"origin", decision.origin},
            {"reason", decision.reason}};
}

}  // namespace

Json environment_json(const RunPlan& plan) {
    Json list = Json::array();
    for (const auto& decision : plan.reasons.environment) list.push_back(to_json(decision));
    return list;
}

Json explain_json(const RunPlan& plan) {
    Json json = to_json(plan);
    Json command = Json::array();
    for (const auto& part : plan.reasons.command)
        command.push_back({{"words", part.words}, {"origin", part.origin}});
    json["reasons"] = {{"identity", plan.reasons.identity},
                       {"session", plan.reasons.session},
                       {"working_directory", plan.reasons.working_directory},
                       {"command", command},
                       {"environment", environment_json(plan)}};
    return json;
}

Json to_json(const RunPlan& plan) {
    Json stages = Json::array(), mounts = Json::array();
    for (const auto& step : plan.stages) stages.push_back(to_json(step));
    for (const auto& step : plan.mounts) mounts.push_back(to_json(step));
    return {{"ids",
             {{"uid_inside", plan.uid_inside},
              {"gid_inside", plan.gid_inside},
              {"uid_outside", plan.uid_outside},
              {"gid_outside", plan.gid_outside}}},
            {"namespaces", plan.namespaces},
            {"session_key", plan.session_key},
            {"session_name", plan.session_name},
            {"image_identity", plan.image_identity},
            {"linger_ms", plan.linger_ms},
            {"stages", stages},
            {"mounts", mounts},
            {"environment", plan.environment},
            {"working_directory", plan.working_directory},
            {"fake_root_calls", plan.fake_root_calls},
            {"hostname", plan.hostname},
            {"timeout_ms", plan.timeout_ms},
            {"library_directories", plan.library_directories},
            {"detach_on_kill", plan.detach_on_kill},
            {"warnings", plan.warnings},
            {"shells", plan.shells},
            {"argv", plan.argv}};
}

}  // namespace slipway::runtime
