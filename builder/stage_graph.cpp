// Finds out where stages begin and which of them a build needs.
// Must not: look at what a stage does, beyond the stages that it names.
#include "stage_graph.hpp"

#include <fmt/format.h>

#include <set>
#include <variant>

#include "expand.hpp"
#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

bool is_stage_number(const std::string& text) {
    return !text.empty() && text.size() < 5 &&
           text.find_first_not_of("0123456789") == std::string::npos;
}

/// What an instruction names with from=.
std::vector<std::string> sources_of(const Instruction& instruction) {
    std::vector<std::string> sources;
    if (const auto* copy = std::get_if<Copy>(&instruction.value)) sources.push_back(copy->from);
    if (const auto* run = std::get_if<Run>(&instruction.value))
        for (const std::string& mount : run->mounts)
            for (const std::string& field : split(mount, ','))
                if (starts_with(field, "from=")) sources.push_back(field.substr(5));
    return sources;
}

}  // namespace

Error placed(const Error& error, const Recipe& recipe, Place place) {
    if (error.message().find(", line ") != std::string::npos) return error;
    Error result = recipe_error(recipe.subject, place, error.message(), error.kind());
    for (const std::string& note : error.notes()) result.note(note);
    if (!error.hint().empty()) result.hint(error.hint());
    return result;
}

StageGraph::StageGraph(const Recipe& recipe, const PlanRequest& request)
    : recipe_(recipe), request_(request) {
    read_globals();
    resolve_bases();
}

void StageGraph::read_globals() {
    globals_.build_args = request_.build_args;
    globals_.globals = platform_arguments(request_.platform, request_.target);
    for (auto& [name, value] : globals_.globals)
        if (const auto given = globals_.build_args.find(name); given != globals_.build_args.end()) {
            value = given->second;
            globals_.used.insert(name);
        }
    for (const Instruction& instruction : recipe_.global_args) {
        try {
            for (const auto& [name, fallback] : std::get<Arg>(instruction.value).definitions)
                define_global(name, fallback);
        } catch (const Error& error) {
            throw placed(error, recipe_, instruction.place);
        }
    }
}

void StageGraph::define_global(const std::string& name,
                               const std::optional<std::string>& fallback) {
    const auto given = globals_.build_args.find(name);
    if (given != globals_.build_args.end()) {
        globals_.globals[name] = given->second;
        globals_.used.insert(name);
    } else if (fallback) {
        globals_.globals[name] = expand_global(*fallback);
    }
}

std::string StageGraph::expand_global(const std::string& text) const {
    ExpandOptions options;
    options.escape = recipe_.escape;
    return expand(text, globals_.globals, options).text;
}

std::optional<size_t> StageGraph::find_named(const std::string& name, size_t before) const {
    for (size_t i = 0; i < before; ++i)
        if (recipe_.stages[i].from.stage_name == to_lower(name)) return i;
    return std::nullopt;
}

void StageGraph::resolve_bases() {
    for (const Stage& stage : recipe_.stages) {
        StageOrigin origin;
        try {
            const std::string base = expand_global(stage.from.base);
            if (base.empty())
                throw Error(ErrorKind::invalid_recipe,
                            fmt::format("the base image {} expands to nothing",
                                        slipway::quoted(stage.from.base)))
                    .hint("give its ARG a default, or pass --build-arg");
            require_own_platform(expand_global(stage.from.platform));
            origin.stage = find_named(base, stage.index);
            origin.image = base == "scratch" ? "" : base;
        } catch (const Error& error) {
            throw placed(error, recipe_, stage.place);
        }
        origins_.push_back(origin);
    }
}

void StageGraph::require_own_platform(const std::string& platform) const {
    if (platform.empty() || platform == request_.platform ||
        platform == split(request_.platform, '/')[0])
        return;
    throw Error(ErrorKind::unsupported, fmt::format("--platform={}: this machine builds {} only",
                                                    platform, request_.platform))
        .hint("build on a machine of that kind");
}

size_t StageGraph::target() const {
    const std::string& name = request_.target;
    const size_t count = recipe_.stages.size();
    if (name.empty()) return count - 1;
    if (const auto stage = find(name, count)) return *stage;
    std::vector<std::string> names;
    for (const Stage& stage : recipe_.stages)
        if (!stage.from.stage_name.empty()) names.push_back(stage.from.stage_name);
    Error error(ErrorKind::not_found,
                fmt::format("{} has no stage {}", recipe_.subject, slipway::quoted(name)));
    if (!names.empty()) error.hint("its stages are: " + join(names, ", "));
    throw error;
}

std::optional<size_t> StageGraph::find(const std::string& from, size_t before) const {
    if (const auto stage = find_named(from, before)) return stage;
    if (is_stage_number(from) && std::stoul(from) < before) return std::stoul(from);
    return std::nullopt;
}

std::vector<size_t> StageGraph::needed(size_t target) const {
    std::set<size_t> needed, open = {target};
    while (!open.empty()) {
        const size_t stage = *open.begin();
        open.erase(open.begin());
        if (!needed.insert(stage).second) continue;
        if (origins_[stage].stage) open.insert(*origins_[stage].stage);
        for (const Instruction& instruction : recipe_.stages[stage].instructions)
            for (const std::string& from : sources_of(instruction))
                if (const auto source = find(from, stage)) open.insert(*source);
    }
    return {needed.begin(), needed.end()};
}

}  // namespace slipway::builder
