// Turns what was typed of the environment into types, and reads the files that were named.
// Must not: read our own environment.
#include "env_spec.hpp"

#include <fmt/core.h>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"

namespace slipway::runtime {

namespace {

constexpr std::string_view kBlanks = " \t";
constexpr uint64_t kMaxFileBytes = 4 << 20;

EnvSetting parse_setting(const std::string& text, const std::string& origin) {
    const size_t equals = text.find('=');
    EnvSetting setting{text.substr(0, equals), std::nullopt, origin};
    if (equals != std::string::npos) {
        setting.value = text.substr(equals + 1);
    } else if (setting.name.ends_with('*')) {
        setting.kind = EnvSetting::Kind::prefix;
        setting.name.pop_back();
    } else if (setting.name.empty()) {
        throw Error(ErrorKind::usage, "cannot set a variable without a name")
            .note("requested by: " + origin)
            .hint("write KEY=VALUE, or KEY alone for the host's value");
    }
    if (setting.value && setting.name.empty())
        throw Error(ErrorKind::usage,
                    fmt::format("cannot set {}: the variable has no name", slipway::quoted(text)))
            .note("requested by: " + origin)
            .hint("write KEY=VALUE, or KEY alone for the host's value");
    return setting;
}

/// What a prompt may say of an image: its name, without what a shell would expand.
std::string prompt_name(const std::string& image) {
    std::string name(image == "/" ? "host" : base_name(image));
    for (const char* suffix : {".sqfs", ".squashfs", ".sif"})
        if (name.ends_with(suffix)) name.resize(name.size() - std::string_view(suffix).size());
    for (char& c : name) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') ||
                           std::string_view("._:@+-").find(c) != std::string_view::npos;
        if (!plain) c = '_';
    }
    return name;
}

void append_file(std::vector<EnvSetting>& settings, const Typed& typed) {
    std::string text;
    try {
        text = read_file(typed.text, kMaxFileBytes);
    } catch (Error& error) {
        throw error.note("requested by: " + typed.origin);
    }
    for (auto& setting : parse_env_file(text, typed.text, typed.origin))
        settings.push_back(std::move(setting));
}

}  // namespace

std::vector<EnvSetting> parse_env_file(std::string_view text, const std::string& file,
                                       const std::string& origin) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
    std::vector<EnvSetting> settings;
    for (int number = 1; !text.empty(); ++number) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
        if (line.empty() || line[0] == '#') continue;
        const std::string where = fmt::format("{}, {}:{}", origin, file, number);
        const std::string_view name = line.substr(0, line.find('='));
        if (name.find_first_of(kBlanks) != std::string_view::npos ||
            line.find('\0') != std::string_view::npos)
            throw Error(ErrorKind::usage,
                        fmt::format("cannot understand the variable {}", slipway::quoted(line)))
                .note("requested by: " + where)
                .hint("write KEY=VALUE without blanks before \"=\", without \"export\" and quotes");
        settings.push_back(parse_setting(std::string(line), where));
    }
    return settings;
}

EnvSpec make_env_spec(const RunOptions& options) {
    EnvSpec spec;
    spec.exact = options.exact_env;
    spec.clean = options.clean_env;
    spec.keep = options.keep_env;
    if (spec.clean && spec.keep)
        throw Error(ErrorKind::conflict, "--clean-env and --keep-env exclude each other")
            .hint("keep one of them; --env and --unset-env make exceptions");
    if (options.shell) spec.prompt = prompt_name(options.image);
    for (const auto& [kind, typed] : options.env) {
        switch (kind) {
            case EnvChange::Kind::set:
                spec.settings.push_back(parse_setting(typed.text, typed.origin));
                break;
            case EnvChange::Kind::file:
                append_file(spec.settings, typed);
                break;
            case EnvChange::Kind::unset:
                spec.settings.push_back(
                    {typed.text, std::nullopt, typed.origin, EnvSetting::Kind::unset});
                break;
        }
    }
    return spec;
}

}  // namespace slipway::runtime
