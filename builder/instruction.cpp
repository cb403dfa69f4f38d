// The third step: syntax -> typed instructions.
// Must not: expand variables or look at files.
#include "instruction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "flags.hpp"
#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

[[noreturn]] void fail(std::string message) {
    throw Error(ErrorKind::invalid_recipe, std::move(message));
}

using Kind = FlagRule::Kind;

void require_no_flags(const SyntaxNode& node, const std::string& keyword) {
    Flags(node.flags, {}, keyword);
}

const std::string& only_argument(const SyntaxNode& node, const std::string& keyword) {
    if (node.arguments.size() != 1) fail(keyword + " requires exactly one argument");
    return node.arguments[0];
}

void require_arguments(const SyntaxNode& node, const std::string& keyword) {
    if (node.arguments.empty()) fail(keyword + " requires at least one argument");
}

CommandLine command_line(const SyntaxNode& node) { return {node.arguments, !node.json}; }

Pairs pairs_of(const SyntaxNode& node, const std::string& keyword) {
    require_no_flags(node, keyword);
    require_arguments(node, keyword);
    Pairs pairs;
    for (size_t i = 0; i + 2 < node.arguments.size(); i += 3) {
        if (node.arguments[i].empty()) fail(keyword + " names can not be blank");
        pairs.emplace_back(node.arguments[i], node.arguments[i + 1]);
    }
    return pairs;
}

bool is_stage_name(const std::string& name) {
    if (name.empty() || name[0] < 'a' || name[0] > 'z') return false;
    return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string::npos;
}

From type_from(const SyntaxNode& node) {
    From from;
    const auto& words = node.arguments;
    if (words.size() == 3 && to_lower(words[1]) == "as") {
        from.stage_name = to_lower(words[2]);
        if (!is_stage_name(from.stage_name))
            fail(
                fmt::format("{} is no name for a stage: it begins with a letter and holds "
                            "letters, digits, '-', '_' and '.'",
                            slipway::quoted(words[2])));
    } else if (words.size() != 1) {
        fail("FROM requires either one or three arguments: FROM image [AS name]");
    }
    from.base = words[0];
    from.platform = Flags(node.flags, {{Kind::text, "platform"}}, "FROM").text("platform");
    return from;
}

Run type_run(const SyntaxNode& node) {
    const Flags flags(node.flags,
                      {{Kind::repeated, "mount"},
                       {Kind::text, "network"},
                       {Kind::text, "security"},
                       {Kind::repeated, "device"}},
                      "RUN");
    Run run;
    run.command = command_line(node);
    run.heredocs = node.heredocs;
    run.mounts = flags.all("mount");
    run.network = flags.text("network");
    run.security = flags.text("security");
    run.devices = flags.all("device");
    if (!run.network.empty() && run.network != "default" && run.network != "none" &&
        run.network != "host")
        fail(fmt::format("the network of RUN is default, none or host, not {}",
                         slipway::quoted(run.network)));
    if (!run.security.empty() && run.security != "sandbox" && run.security != "insecure")
        fail(fmt::format("the security of RUN is sandbox or insecure, not {}",
                         slipway::quoted(run.security)));
    return run;
}

Copy type_copy(const SyntaxNode& node, bool add) {
    const std::string keyword = add ? "ADD" : "COPY";
    if (node.arguments.size() < 2)
        fail(keyword + " requires at least two arguments: a source and the destination");
    std::vector<FlagRule> rules = {{Kind::text, "chown"},
                                   {Kind::text, "chmod"},
                                   {Kind::boolean, "link"},
                                   {Kind::repeated, "exclude"}};
    if (add)
        rules.insert(
            rules.end(),
            {{Kind::boolean, "keep-git-dir"}, {Kind::text, "checksum"}, {Kind::boolean, "unpack"}});
    else
        rules.insert(rules.end(), {{Kind::text, "from"}, {Kind::boolean, "parents"}});
    const Flags flags(node.flags, rules, keyword);

    Copy copy;
    copy.add = add;
    copy.destination = node.arguments.back();
    if (!node.json && parse_heredoc_word(copy.destination))
        fail(keyword + " cannot have a heredoc as its destination");
    for (size_t i = 0; i + 1 < node.arguments.size(); ++i) {
        const std::string& source = node.arguments[i];
        const auto word = node.json ? std::nullopt : parse_heredoc_word(source);
        if (!word) {
            copy.sources.push_back(source);
            continue;
        }
        InlineFile file{word->name, {}, word->expand};
        for (const Heredoc& heredoc : node.heredocs)
            if (heredoc.name == word->name) file.content = heredoc.content;
        if (word->strip_tabs) file.content = without_leading_tabs(file.content);
        copy.inline_files.push_back(std::move(file));
    }
    copy.from = flags.text("from");
    copy.chown = flags.text("chown");
    copy.chmod = flags.text("chmod");
    copy.checksum = flags.text("checksum");
    copy.exclude = flags.all("exclude");
    copy.link = flags.flag("link");
    copy.parents = flags.flag("parents");
    copy.keep_git_dir = flags.flag("keep-git-dir");
    copy.unpack = flags.boolean("unpack");
    return copy;
}

Arg type_arg(const SyntaxNode& node) {
    require_no_flags(node, "ARG");
    require_arguments(node, "ARG");
    Arg arg;
    for (const std::string& word : node.arguments) {
        const size_t equals = word.find('=');
        if (equals == 0) fail("ARG names can not be blank");
        std::optional<std::string> value;
        if (equals != std::string::npos) value = word.substr(equals + 1);
        arg.definitions.emplace_back(word.substr(0, equals), std::move(value));
    }
    return arg;
}

OnBuild type_onbuild(const SyntaxNode& node, const std::string& subject) {
    require_no_flags(node, "ONBUILD");
    if (node.trigger.empty()) fail("ONBUILD requires at least one argument");
    const std::string keyword = to_upper(node.trigger[0].keyword);
    if (keyword == "ONBUILD") fail("ONBUILD cannot hold another ONBUILD");
    if (keyword == "FROM" || keyword == "MAINTAINER") fail(keyword + " is not allowed in ONBUILD");
    type_instruction(node.trigger[0], subject);  // a mistake is found now, not by the next image
    OnBuild result{node.trigger[0].original};
    for (const Heredoc& heredoc : node.heredocs)
        result.trigger += "\n" + heredoc.content + heredoc.name;
    return result;
}

/// "1h30m", "5s", "100ms" in nanoseconds: Go's ParseDuration without signs.
int64_t parse_duration(const std::string& flag, const std::string& text) {
    if (text.empty() || text == "0") return 0;
    static const std::map<std::string, double> kUnits = {
        {"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    double total = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t number_end = text.find_first_not_of("0123456789.", at);
        const size_t unit_end = text.find_first_of("0123456789.", number_end);
        const std::string number = text.substr(at, number_end - at);
        const auto unit = number_end == std::string::npos
                              ? kUnits.end()
                              : kUnits.find(text.substr(number_end, unit_end - number_end));
        if (number.empty() || number == "." || unit == kUnits.end())
            fail(fmt::format("--{}={} is no duration; write it like 30s or 1m30s", flag, text));
        total += std::stod(number) * unit->second;
        at = unit_end == std::string::npos ? text.size() : unit_end;
    }
    if (total != 0 && total < 1e6) fail(fmt::format("--{} cannot be less than 1ms", flag));
    return static_cast<int64_t>(total + 0.5);
}

int parse_retries(const std::string& text) {
    if (text.empty()) return 0;
    if (text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9)
        fail(fmt::format("--retries={} is no number of retries", text));
    return std::stoi(text);
}

Healthcheck type_healthcheck(const SyntaxNode& node) {
    require_arguments(node, "HEALTHCHECK");
    const std::string type = to_upper(node.arguments[0]);
    Healthcheck check;
    if (type == "NONE") {
        require_no_flags(node, "HEALTHCHECK NONE");
        if (node.arguments.size() > 1) fail("HEALTHCHECK NONE takes no arguments");
        check.test = {"NONE"};
        return check;
    }
    if (type != "CMD")
        fail(fmt::format("unknown type {} in HEALTHCHECK (CMD or NONE)", slipway::quoted(type)));
    const Flags flags(node.flags,
                      {{Kind::text, "interval"},
                       {Kind::text, "timeout"},
                       {Kind::text, "start-period"},
                       {Kind::text, "start-interval"},
                       {Kind::text, "retries"}},
                      "HEALTHCHECK");
    if (node.arguments.size() < 2) fail("a command is missing after HEALTHCHECK CMD");
    check.test = node.arguments;
    check.test[0] = node.json ? "CMD" : "CMD-SHELL";
    check.interval = parse_duration("interval", flags.text("interval"));
    check.timeout = parse_duration("timeout", flags.text("timeout"));
    check.start_period = parse_duration("start-period", flags.text("start-period"));
    check.start_interval = parse_duration("start-interval", flags.text("start-interval"));
    check.retries = parse_retries(flags.text("retries"));
    return check;
}

decltype(Instruction::value) type_value(const SyntaxNode& node, const std::string& keyword,
                                        const std::string& subject) {
    if (keyword == "FROM") return type_from(node);
    if (keyword == "RUN") return type_run(node);
    if (keyword == "COPY" || keyword == "ADD") return type_copy(node, keyword == "ADD");
    if (keyword == "ENV") return Env{pairs_of(node, keyword)};
    if (keyword == "LABEL") return Label{pairs_of(node, keyword)};
    if (keyword == "ARG") return type_arg(node);
    if (keyword == "ONBUILD") return type_onbuild(node, subject);
    if (keyword == "HEALTHCHECK") return type_healthcheck(node);

    require_no_flags(node, keyword);
    if (keyword == "CMD") return Cmd{command_line(node)};
    if (keyword == "ENTRYPOINT") return Entrypoint{command_line(node)};
    if (keyword == "SHELL") {
        require_arguments(node, keyword);
        if (!node.json)
            throw Error(ErrorKind::invalid_recipe, "SHELL requires the JSON form")
                .hint("write SHELL [\"/bin/bash\", \"-c\"]");
        return Shell{node.arguments};
    }
    if (keyword == "EXPOSE") {
        require_arguments(node, keyword);
        return Expose{node.arguments};
    }
    if (keyword == "VOLUME") {
        require_arguments(node, keyword);
        for (const std::string& path : node.arguments)
            if (trim(path).empty()) fail("VOLUME specified can not be an empty string");
        return Volume{node.arguments};
    }
    if (keyword == "USER") return User{only_argument(node, keyword)};
    if (keyword == "WORKDIR") return Workdir{only_argument(node, keyword)};
    if (keyword == "STOPSIGNAL") return StopSignal{only_argument(node, keyword)};
    return Maintainer{only_argument(node, keyword)};
}

Error unknown_instruction(const SyntaxNode& node) {
    const std::string word = to_upper(node.keyword);
    Error error(ErrorKind::invalid_recipe,
                fmt::format("unknown instruction {}", slipway::quoted(word)));
    std::string nearest;
    size_t distance = 3;
    for (const std::string& name : instruction_names()) {
        const size_t d = edit_distance(word, name);
        if (d < distance) {
            distance = d;
            nearest = name;
        }
    }
    if (!nearest.empty()) error.hint(fmt::format("did you mean {}?", nearest));
    return error;
}

}  // namespace

const std::vector<std::string>& instruction_names() {
    static const std::vector<std::string> kNames = {
        "ADD",    "ARG",   "CMD",         "COPY",  "ENTRYPOINT", "ENV",
        "EXPOSE", "FROM",  "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD",
        "RUN",    "SHELL", "STOPSIGNAL",  "USER",  "VOLUME",     "WORKDIR"};
    return kNames;
}

Instruction type_instruction(const SyntaxNode& node, const std::string& subject) {
    Instruction instruction;
    instruction.keyword = to_upper(node.keyword);
    instruction.original = trim(node.original);
    instruction.place = node.place;
    try {
        const auto& names = instruction_names();
        if (std::find(names.begin(), names.end(), instruction.keyword) == names.end())
            throw unknown_instruction(node);
        instruction.value = type_value(node, instruction.keyword, subject);
    } catch (const Error& error) {
        const std::string place = fmt::format("{}, line {}: ", subject, node.place.first_line);
        if (starts_with(error.message(), place)) throw;
        Error placed(error.kind(), place + error.message());
        if (!error.hint().empty()) placed.hint(error.hint());
        throw placed;
    }
    return instruction;
}

}  // namespace slipway::builder
