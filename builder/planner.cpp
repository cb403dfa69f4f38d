// Decides a whole build: stages -> steps with their keys. Which stages: stage_graph.cpp.
// Must not: do anything, or learn about the world but by the questions in PlanFacts.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mount_option.hpp"
#include "plan.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "stage_graph.hpp"
#include "stage_state.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

class Planner {
 public:
    Planner(const Recipe& recipe, const PlanRequest& request, const PlanFacts& facts)
        : recipe_(recipe),
          request_(request),
          facts_(facts),
          stages_(recipe, request),
          globals_(stages_.take_globals()) {}

    BuildPlan run() {
        plan_.warnings = recipe_.warnings;
        plan_.source_date_epoch = request_.source_date_epoch;
        const size_t target = stages_.target();
        for (const size_t stage : stages_.needed(target)) plan_stage(recipe_.stages[stage]);
        plan_.target = *results_.at(target);
        for (const std::string& bundle : request_.preload) plan_preload(bundle);
        warn_of_unused_arguments();
        return std::move(plan_);
    }

 private:
    // --- steps ---

    size_t add_step(Step step) {
        step.id = plan_.steps.size();
        plan_.steps.push_back(std::move(step));
        return plan_.steps.back().id;
    }

    /// The step that stands for an image, made once.
    size_t base_step(const std::string& name, Place place, size_t stage) {
        const auto known = bases_.find(name);
        if (known != bases_.end()) return known->second;
        Step step;
        step.kind = Step::Kind::base;
        step.image = name;
        step.text = "FROM " + (name.empty() ? "scratch" : name);
        step.place = place;
        step.stage = stage;
        Json chain = Json::array({"layers"});
        if (name.empty()) {
            step.config.architecture = split(request_.platform, '/')[1];
            step.config.env = {fmt::format("PATH={}", kDefaultPath)};
        } else {
            BaseFacts facts = facts_.base(name);
            for (const image::Layer& layer : facts.layers) chain.push_back(layer.diff_id.text());
            step.config = std::move(facts.config);
        }
        step.key = sha256(chain.dump()).hex();
        const size_t id = add_step(std::move(step));
        bases_[name] = id;
        return id;
    }

    void plan_stage(const Stage& stage) {
        stage_ = &stage;
        try {
            const StageOrigin& origin = stages_.origin(stage.index);
            last_ = origin.stage ? *results_.at(*origin.stage)
                                 : base_step(origin.image, stage.place, stage.index);
        } catch (const Error& error) {
            throw placed(error, recipe_, stage.place);
        }
        StageState state(plan_.steps[last_].config, recipe_.escape, globals_);
        if (const auto& from = stages_.origin(stage.index).stage)
            state.inherit(arguments_.at(*from));
        const auto triggers = std::exchange(state.config.on_build, {});
        for (const std::string& trigger : triggers)
            plan_instruction(read_trigger(trigger, stage.from.base, stage.place), state);
        for (const Instruction& instruction : stage.instructions)
            plan_instruction(instruction, state);
        results_[stage.index] = last_;
        arguments_[stage.index] = state.arguments();
    }

    void plan_instruction(const Instruction& instruction, StageState& state) {
        Step step;
        step.parent = last_;
        step.text = instruction.original;
        step.place = instruction.place;
        step.stage = stage_->index;
        step.key = plan_.steps[last_].key;
        try {
            if (const auto* run = std::get_if<Run>(&instruction.value)) {
                plan_run(*run, state, step);
            } else if (const auto* copy = std::get_if<Copy>(&instruction.value)) {
                plan_copy(*copy, state, step);
            } else {
                state.apply(instruction);
                if (std::holds_alternative<Workdir>(instruction.value)) plan_workdir(state, step);
            }
        } catch (const Error& error) {
            throw placed(error, recipe_, instruction.place);
        }
        step.config = state.config;
        last_ = add_step(std::move(step));
    }

    std::string key_of(const Step& step, Json payload) const {
        payload["parent"] = step.key;
        if (request_.source_date_epoch) payload["epoch"] = *request_.source_date_epoch;
        return sha256(payload.dump(-1, ' ', false, Json::error_handler_t::replace)).hex();
    }

    void plan_workdir(const StageState& state, Step& step) const {
        step.kind = Step::Kind::workdir;
        step.directory = state.config.working_dir;
        step.key = key_of(step, {{"workdir", step.directory}, {"user", state.config.user}});
    }

    // --- RUN ---

    void plan_run(const Run& run, const StageState& state, Step& step) {
        step.kind = Step::Kind::run;
        if (run.security == "insecure" || !run.devices.empty())
            throw Error(ErrorKind::unsupported,
                        "RUN --security=insecure and --device are not supported: a build has no "
                        "privilege to give");
        if (run.command.words.empty())
            throw Error(ErrorKind::invalid_recipe, "RUN requires a command");
        RunAction& action = step.run;
        action.argv = state.shell_command(run_command(run, action));
        action.environment = state.run_environment();
        action.working_directory = state.absolute(".");
        action.user = state.config.user;
        action.network = request_.network && run.network != "none";
        Json mounts = Json::array();
        for (const std::string& text : run.mounts) {
            action.mounts.push_back(plan_mount(text, state, step));
            mounts.push_back(mount_key(action.mounts.back()));
        }
        Json scripts = Json::array();
        for (const InlineFile& file : action.scripts) scripts.push_back({file.name, file.content});
        step.key = key_of(step, {{"run", action.argv},
                                 {"environment", action.environment},
                                 {"directory", action.working_directory},
                                 {"user", action.user},
                                 {"network", action.network},
                                 {"mounts", mounts},
                                 {"scripts", scripts}});
        add_proxies(action);
    }

    /// Proxies given as build arguments reach RUN without ARG, and no key.
    void add_proxies(RunAction& action) {
        for (const auto& [name, value] : request_.build_args) {
            if (!is_proxy_argument(name)) continue;
            globals_.used.insert(name);
            const bool set = std::any_of(
                action.environment.begin(), action.environment.end(),
                [&, &n = name](const std::string& e) { return starts_with(e, n + "="); });
            if (!set) action.environment.push_back(name + "=" + value);
        }
    }

    /// The command with its heredocs: a script of its own, the shell's argument, or put together
    /// again for the shell.
    static CommandLine run_command(const Run& run, RunAction& action) {
        CommandLine command = run.command;
        if (run.heredocs.empty() || !command.use_shell) return command;
        const Heredoc& first = run.heredocs[0];
        if (parse_heredoc_word(command.words[0])) {
            const std::string body =
                first.strip_tabs ? without_leading_tabs(first.content) : first.content;
            if (starts_with(body, "#!")) {
                action.scripts.push_back({first.name, body, false});
                command.words = {"/dev/pipes/" + first.name};
            } else {
                command.words = {body};
            }
            return command;
        }
        for (const Heredoc& heredoc : run.heredocs)
            command.words[0] += "\n" + heredoc.content + heredoc.name;
        return command;
    }

    MountAction plan_mount(const std::string& text, const StageState& state, const Step& step) {
        MountRequest mount = parse_mount(text, state.absolute("."), [&](const std::string& word) {
            return state.expand_word(word);
        });
        MountAction& action = mount.action;
        if (action.type != MountAction::Type::bind) return action;
        if (!mount.from.empty()) {
            action.from_step = source_step(mount.from, step);
        } else {
            CopyAction content;
            content.sources = {action.source.empty() ? "." : action.source};
            action.content = facts_.context_content(content);
        }
        return action;
    }

    Json mount_key(const MountAction& mount) const {
        const std::string from = mount.from_step ? plan_.steps[*mount.from_step].key : "";
        return {static_cast<int>(mount.type),
                mount.target,
                mount.source,
                from,
                mount.read_only,
                mount.cache_id,
                mount.mode,
                mount.content};
    }

    // --- COPY and ADD ---

    /// The step whose result `--from=NAME` means: a stage, or an image.
    size_t source_step(const std::string& from, const Step& step) {
        if (const auto stage = stages_.find(from, stage_->index)) return *results_.at(*stage);
        for (const Stage& later : recipe_.stages)
            if (later.index >= stage_->index && later.from.stage_name == to_lower(from))
                throw Error(ErrorKind::invalid_recipe,
                            fmt::format("the stage {} comes later (line {})", slipway::quoted(from),
                                        later.place.first_line));
        return base_step(from, step.place, step.stage);
    }

    void plan_copy(const Copy& copy, const StageState& state, Step& step) {
        const std::string keyword = copy.add ? "ADD" : "COPY";
        step.kind = Step::Kind::copy;
        CopyAction& action = step.copy;
        action.add = copy.add;
        for (const std::string& source : copy.sources)
            action.sources.push_back(state.expand_word(source));
        for (const InlineFile& file : copy.inline_files)
            action.inline_files.push_back(
                {file.name, file.expand ? state.expand_body(file.content) : file.content, false});
        const std::string destination = state.expand_word(copy.destination);
        if (destination.empty())
            throw Error(ErrorKind::invalid_recipe,
                        keyword + ": the destination expands to nothing");
        action.destination = state.absolute(destination);
        const bool directory = destination.back() == '/' || base_name(destination) == ".";
        if (directory && action.destination != "/") action.destination += '/';
        action.chown = state.expand_word(copy.chown);
        action.chmod = state.expand_word(copy.chmod);
        for (const std::string& pattern : copy.exclude)
            action.exclude.push_back(state.expand_word(pattern));
        action.parents = copy.parents;
        require_local(copy, action);
        action.unpack = copy.add && copy.unpack.value_or(true);
        if (action.sources.size() + action.inline_files.size() > 1 && !directory)
            throw Error(
                ErrorKind::invalid_recipe,
                fmt::format("{} of several sources needs a destination that ends with \"/\"",
                            keyword));
        if (!copy.from.empty()) {
            if (state.expand_word(copy.from) != copy.from)
                throw Error(ErrorKind::invalid_recipe, "COPY --from does not take variables");
            action.from_step = source_step(copy.from, step);
        }
        finish_copy(action, step);
    }

    static void require_local(const Copy& copy, const CopyAction& action) {
        for (const std::string& source : action.sources) {
            const bool remote = starts_with(source, "http://") || starts_with(source, "https://") ||
                                starts_with(source, "git@") || starts_with(source, "git://") ||
                                starts_with(source, "ssh://");
            if (remote && copy.add)
                throw Error(ErrorKind::unsupported,
                            fmt::format("ADD {}: downloads are not supported", source))
                    .hint("download it into the context, or with curl or git in a RUN");
        }
        if (!copy.checksum.empty() || copy.keep_git_dir)
            throw Error(ErrorKind::unsupported,
                        "ADD --checksum and --keep-git-dir are for downloads, which are not "
                        "supported");
    }

    void finish_copy(CopyAction& action, Step& step) const {
        Json inline_files = Json::array();
        for (const InlineFile& file : action.inline_files)
            inline_files.push_back({file.name, file.content});
        if (!action.from_step && !action.sources.empty())
            action.content = facts_.context_content(action);
        step.key =
            key_of(step, {{"copy", action.content},
                          {"sources", action.sources},
                          {"files", inline_files},
                          {"from", action.from_step ? plan_.steps[*action.from_step].key : ""},
                          {"destination", action.destination},
                          {"chown", action.chown},
                          {"chmod", action.chmod},
                          {"exclude", action.exclude},
                          {"parents", action.parents},
                          {"unpack", action.unpack}});
    }

    // --- what comes last ---

    void plan_preload(const std::string& bundle) {
        Step step;
        step.kind = Step::Kind::preload;
        step.parent = plan_.target;
        step.text = "--preload " + bundle;
        step.directory = bundle;
        const Step& parent = plan_.steps[plan_.target];
        step.stage = parent.stage;
        step.config = parent.config;
        step.key = parent.key;
        step.key = key_of(step, {{"preload", facts_.preload_content(bundle)}});
        const std::string path = step.config.get_env("PATH").value_or(kDefaultPath);
        const std::string directory = "/opt/slipway/bin";
        const auto parts = split(path, ':');
        if (std::find(parts.begin(), parts.end(), directory) == parts.end())
            step.config.set_env("PATH", path + ":" + directory);
        plan_.target = add_step(std::move(step));
    }

    void warn_of_unused_arguments() {
        for (const auto& [name, value] : request_.build_args)
            if (globals_.used.count(name) == 0 && !is_proxy_argument(name) &&
                name != "SOURCE_DATE_EPOCH")
                plan_.warnings.push_back(
                    fmt::format("--build-arg {}: no ARG {} asks for it", name, name));
    }

    const Recipe& recipe_;
    const PlanRequest& request_;
    const PlanFacts& facts_;
    StageGraph stages_;
    BuildPlan plan_;
    GlobalVariables globals_;
    std::map<size_t, std::optional<size_t>> results_;    ///< stage -> its last step
    std::map<size_t, StageState::Arguments> arguments_;  ///< stage -> its arguments at its end
    std::map<std::string, size_t> bases_;
    const Stage* stage_ = nullptr;
    size_t last_ = 0;
};

}  // namespace

BuildPlan plan_steps(const Recipe& recipe, const PlanRequest& request, const PlanFacts& facts) {
    return Planner(recipe, request, facts).run();
}

}  // namespace slipway::builder
