// What one stage knows while its instructions are planned one after another.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "expand.hpp"
#include "plan.hpp"

namespace slipway::builder {

/// Variables of a whole build: ARG before the first FROM, platform arguments, --build-arg.
struct GlobalVariables {
    Variables build_args;
    Variables globals;           ///< what `ARG X` without a default inherits
    std::set<std::string> used;  ///< build arguments that some ARG asked for
};

/// The arguments that every build has, and their values: TARGETARCH and so on.
Variables platform_arguments(const std::string& platform, const std::string& target_stage);
/// HTTP_PROXY and its kin: known without ARG, and no part of any key.
bool is_proxy_argument(const std::string& name);

/// Configuration and variables of a stage; apply() changes them as instructions ask. Pure.
class StageState {
 public:
    StageState(image::ImageConfig config, char escape, GlobalVariables& globals);

    /// Arguments by name, in the order of their ARG.
    using Arguments = std::vector<std::pair<std::string, std::string>>;
    const Arguments& arguments() const { return args_; }
    /// A stage that begins FROM another has that one's arguments.
    void inherit(Arguments arguments) { args_ = std::move(arguments); }

    /// Expand one word. Throws: Error(invalid_recipe).
    std::string expand_word(const std::string& word) const;
    std::vector<std::string> expand_words(const std::string& text) const;
    /// Expand the body of a heredoc file: quotes mean nothing there.
    std::string expand_body(const std::string& body) const;

    /// Apply an instruction that changes configuration or variables only.
    void apply(const Instruction& instruction);

    /// Arguments and environment as RUN sees them, "K=V", PATH always among them.
    std::vector<std::string> run_environment() const;
    std::vector<std::string> shell_command(const CommandLine& command) const;
    std::string absolute(const std::string& path) const;  ///< against WORKDIR

    image::ImageConfig config;

 private:
    void apply_env(const Env& env);
    void apply_label(const Label& label);
    void apply_arg(const Arg& arg);
    void apply_expose(const Expose& expose);
    void apply_volume(const Volume& volume);
    void apply_entrypoint(const Entrypoint& entrypoint);
    void apply_healthcheck(const Healthcheck& check);
    Variables variables() const;

    char escape_;
    GlobalVariables& globals_;
    Arguments args_;
    bool cmd_set_ = false;
};

}  // namespace slipway::builder
