// The third step: syntax -> typed instructions, checked for number of arguments and flags.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "slipway/base/error.hpp"
#include "syntax.hpp"

namespace slipway::builder {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// RUN, CMD, ENTRYPOINT: words in exec form, or one text for the shell.
struct CommandLine {
    std::vector<std::string> words;
    bool use_shell = false;
};

struct From {
    std::string base;
    std::string stage_name;  ///< lower case, "" if none
    std::string platform;
};
struct Run {
    CommandLine command;
    std::vector<Heredoc> heredocs;
    std::vector<std::string> mounts;  ///< as written: "type=cache,target=/x"
    std::string network;              ///< "", default, none, host
    std::string security;             ///< "", sandbox, insecure
    std::vector<std::string> devices;
};
/// A file whose content stands in the Dockerfile.
struct InlineFile {
    std::string name;
    std::string content;
    bool expand = false;
};
/// COPY and ADD.
struct Copy {
    bool add = false;
    std::vector<std::string> sources;
    std::vector<InlineFile> inline_files;
    std::string destination;
    std::string from;
    std::string chown;
    std::string chmod;
    std::string checksum;
    std::vector<std::string> exclude;
    bool link = false;
    bool parents = false;
    bool keep_git_dir = false;
    std::optional<bool> unpack;
};
struct Env {
    Pairs pairs;
};
struct Label {
    Pairs pairs;
};
struct Arg {
    std::vector<std::pair<std::string, std::optional<std::string>>> definitions;
};
struct Cmd {
    CommandLine command;
};
struct Entrypoint {
    CommandLine command;
};
struct Shell {
    std::vector<std::string> words;
};
struct Expose {
    std::vector<std::string> ports;
};
struct Volume {
    std::vector<std::string> paths;
};
struct User {
    std::string user;
};
struct Workdir {
    std::string path;
};
struct StopSignal {
    std::string signal;
};
struct Maintainer {
    std::string name;
};
struct OnBuild {
    std::string trigger;  ///< an instruction as text, its heredocs included
};
/// Durations in nanoseconds; 0 = not given.
struct Healthcheck {
    std::vector<std::string> test;  ///< {"NONE"}, {"CMD", ...}, {"CMD-SHELL", text}
    int64_t interval = 0, timeout = 0, start_period = 0, start_interval = 0;
    int retries = 0;
};

struct Instruction {
    std::variant<From, Run, Copy, Env, Label, Arg, Cmd, Entrypoint, Shell, Expose, Volume, User,
                 Workdir, StopSignal, Maintainer, OnBuild, Healthcheck>
        value;
    std::string keyword;   ///< upper case
    std::string original;  ///< as written, one line
    Place place;
};

/// Check one instruction. Throws: Error(invalid_recipe) "SUBJECT, line N: ..." with a hint where
/// one is known.
Instruction type_instruction(const SyntaxNode& node, const std::string& subject);

/// The 18 keywords, upper case, sorted.
const std::vector<std::string>& instruction_names();

}  // namespace slipway::builder
