// Turns options as typed into a validated specification.
// Must not: look at the image or at the host, beyond the working directory for relative sources.
#include "run_spec.hpp"

#include <fmt/core.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

Error malformed(const Typed& typed, const std::string& reason) {
    return Error(ErrorKind::usage, fmt::format("cannot understand the bind {}: {}",
                                               slipway::quoted(typed.text), reason))
        .note("requested by: " + typed.origin)
        .hint(
            "write SRC[:DST[:OPTIONS]] with absolute DST and options out of ro, rw, optional, "
            "separated by commas");
}

BindSpec parse_bind(const Typed& typed) {
    const auto parts = split(typed.text, ':');
    if (parts.size() > 3) throw malformed(typed, "it has more than three parts");
    if (parts[0].empty()) throw malformed(typed, "the source is empty");
    BindSpec bind;
    bind.origin = typed.origin;
    bind.source = absolute_path(parts[0]);
    const std::string destination = parts.size() > 1 && !parts[1].empty() ? parts[1] : bind.source;
    if (!destination.starts_with('/')) throw malformed(typed, "the destination is not absolute");
    bind.destination = lexically_normal(destination);
    if (bind.destination == "/")
        throw malformed(typed, "nothing can be mounted over the image's root directory");
    if (parts.size() < 3) return bind;
    for (const auto& option : split(parts[2], ',')) {
        if (option == "ro")
            bind.read_only = true;
        else if (option == "optional")
            bind.optional = true;
        else if (option != "rw")
            throw malformed(typed, fmt::format("there is no option {}", slipway::quoted(option)));
    }
    return bind;
}

EnvSetting parse_setting(const Typed& typed) {
    const size_t equals = typed.text.find('=');
    EnvSetting setting{typed.text.substr(0, equals), std::nullopt, typed.origin};
    if (setting.name.empty())
        throw Error(ErrorKind::usage, fmt::format("cannot set {}: the variable has no name",
                                                  slipway::quoted(typed.text)))
            .note("requested by: " + typed.origin)
            .hint("write KEY=VALUE, or KEY alone for the host's value");
    if (equals != std::string::npos) setting.value = typed.text.substr(equals + 1);
    return setting;
}

}  // namespace

RunSpec make_run_spec(const RunOptions& options) {
    RunSpec spec;
    spec.command = options.command;
    for (const auto& typed : options.binds) spec.binds.push_back(parse_bind(typed));
    for (const auto& typed : options.env) spec.env.push_back(parse_setting(typed));
    spec.directory = options.directory;
    if (spec.directory && !spec.directory->starts_with('/'))
        throw Error(ErrorKind::usage, fmt::format("the initial directory {} is not absolute",
                                                  slipway::quoted(*spec.directory)))
            .note("requested by: --cd");
    spec.write = options.write;
    spec.share_session = options.session != "none";
    if (spec.share_session) spec.session_name = options.session;
    return spec;
}

}  // namespace slipway::runtime
