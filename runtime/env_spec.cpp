// Turns what was typed of the environment into types.
// Must not: read our own environment.
#include "env_spec.hpp"

#include <fmt/core.h>

#include "slipway/base/error.hpp"

namespace slipway::runtime {

namespace {

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

EnvSpec make_env_spec(const RunOptions& options) {
    EnvSpec spec;
    spec.exact = options.exact_env;
    for (const auto& change : options.env) spec.settings.push_back(parse_setting(change.typed));
    return spec;
}

}  // namespace slipway::runtime
