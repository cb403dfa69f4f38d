// Puts the layers of configuration together and remembers who said what.
// Must not: act on a setting; the command line and the planner do.
#include "configuration.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "host_facts.hpp"
#include "run_spec.hpp"
#include "settings_file.hpp"
#include "site.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::runtime {

namespace {

using Variables = std::map<std::string, std::string>;

bool is_name_character(char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// Put values in place of "~/" in front and of $NAME and ${NAME}: a site's store is another
/// directory for each user.
std::string expand(const std::string& text, const std::string& path, const std::string& key,
                   const Variables& variables) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        if (text[i] != '$') {
            out += text[i++];
            continue;
        }
        const bool braced = i + 1 < text.size() && text[i + 1] == '{';
        const size_t begin = i + (braced ? 2 : 1);
        size_t end = begin;
        while (end < text.size() && is_name_character(text[end])) ++end;
        if (end == begin || (braced && (end == text.size() || text[end] != '}')))
            throw setting_error(path, key, "has a \"$\" without a variable's name")
                .hint("write $NAME or ${NAME}");
        const auto found = variables.find(text.substr(begin, end - begin));
        if (found == variables.end() || found->second.empty())
            throw setting_error(path, key,
                                fmt::format("needs the variable {}, which is not set",
                                            text.substr(begin, end - begin)))
                .hint("set it, or choose the value with an option or a SLIPWAY_ variable");
        out += found->second;
        i = end + (braced ? 1 : 0);
    }
    if (out == "~" || out.starts_with("~/")) {
        const auto home = variables.find("HOME");
        out = (home != variables.end() ? home->second : home_directory()) + out.substr(1);
    }
    return out;
}

/// A value as it counts, checked; `where` is who gave it.
void check_value(const std::string& name, const std::string& value, const std::string& where) {
    if (value.empty()) return;
    if (name == "linger") parse_duration_ms(value, where);
}

Setting setting_of(const ConfigurationFile& file, const std::string& name, const Json& json,
                   const Variables& variables) {
    Setting setting{"", fmt::format("{} in {}", slipway::quoted(name), file.path)};
    if (json.is_null()) return setting;  // back to what is built in
    if (!json.is_string() || json.get<std::string>().empty())
        throw setting_error(file.path, name, "is not a string with something in it")
            .hint("write null for the built-in behaviour");
    setting.value = expand(json.get<std::string>(), file.path, name, variables);
    const bool path = name == "store" || name == "catalogue" ||
                      (name == "stage" && setting.value != "auto" && setting.value != "none");
    if (path && !setting.value.starts_with('/'))
        throw setting_error(file.path, name,
                            fmt::format("is {}, no absolute path", slipway::quoted(setting.value)))
            .hint("begin it with /, ~/ or a variable such as $HOME");
    check_value(name, setting.value, setting.origin);
    return setting;
}

bool is_variable_name(const std::string& name) {
    return !name.empty() && name.find('=') == std::string::npos &&
           name.find('\0') == std::string::npos;
}

void take_environment(const ConfigurationFile& file, Configuration& configuration) {
    using Kind = EnvChange::Kind;
    if (const auto env = file.object.find("env"); env != file.object.end() && !env->is_null()) {
        if (!env->is_object())
            throw setting_error(file.path, "env", "is not an object")
                .hint("write \"env\": {\"NAME\": \"value\"}");
        for (const auto& [name, value] : env->items()) {
            if (!is_variable_name(name) || !value.is_string())
                throw setting_error(
                    file.path, "env",
                    fmt::format("gives {} something that is not a string", slipway::quoted(name)))
                    .hint("write \"NAME\": \"value\"");
            configuration.environment.push_back(
                {Kind::set,
                 {name + "=" + value.get<std::string>(), fmt::format("\"env\" in {}", file.path)}});
        }
    }
    for (const auto& glob :
         json_strings(file.object, "unset_env", slipway::quoted(file.path), ErrorKind::usage))
        configuration.environment.push_back(
            {Kind::unset, {glob, fmt::format("\"unset_env\" in {}", file.path)}});
}

/// The variables of the settings. All others count only within a file, which may use them.
Variables setting_variables() {
    Variables variables;
    for (const auto& row : setting_rows())
        if (const char* value = std::getenv(row.variable)) variables.emplace(row.variable, value);
    return variables;
}

std::string user_file() {
    const char* base = std::getenv("XDG_CONFIG_HOME");
    const std::string directory =
        base != nullptr && base[0] == '/' ? base : join_path(home_directory(), ".config");
    return join_path(directory, "slipway/config.json");
}

}  // namespace

const std::vector<SettingRow>& setting_rows() {
    static const std::vector<SettingRow> rows = {
        {"store", "SLIPWAY_STORE", "$XDG_DATA_HOME/slipway, else ~/.local/share/slipway"},
        {"session", "SLIPWAY_SESSION", "found from the launcher"},
        {"linger", "SLIPWAY_LINGER", "the session ends with its last command"},
        {"stage", "SLIPWAY_STAGE", "images are used where they lie"},
        {"catalogue", "SLIPWAY_CATALOGUE", "no catalogue of datasets"},
    };
    return rows;
}

const std::string& Configuration::value(const std::string& name) const {
    static const std::string none;
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? none : found->second.back().value;
}

std::vector<std::string> configuration_keys() {
    std::vector<std::string> keys;
    for (const auto& row : setting_rows()) keys.emplace_back(row.name);
    keys.insert(keys.end(), {"env", "unset_env"});
    return keys;
}

Configuration merge_configuration(const std::vector<ConfigurationFile>& files,
                                  const std::map<std::string, std::string>& environment) {
    Configuration configuration;
    for (const auto& row : setting_rows())
        configuration.settings[row.name].push_back({"", "built in"});
    for (const auto& file : files) {
        configuration.files.push_back(file.path);
        for (const auto& row : setting_rows())
            if (const auto found = file.object.find(row.name); found != file.object.end())
                configuration.settings[row.name].push_back(
                    setting_of(file, row.name, *found, environment));
        take_environment(file, configuration);
    }
    for (const auto& row : setting_rows()) {
        const auto found = environment.find(row.variable);
        if (found == environment.end() || found->second.empty()) continue;
        check_value(row.name, found->second, row.variable);
        configuration.settings[row.name].push_back({found->second, row.variable});
    }
    return configuration;
}

Configuration load_configuration() {
    std::vector<ConfigurationFile> files;
    for (const auto& path : {join_path(site_directory(), "config.json"), user_file()})
        if (auto object = read_settings_file(path, configuration_keys()))
            files.push_back({path, std::move(*object)});
    return merge_configuration(files, files.empty() ? setting_variables() : read_environment());
}

void apply_configuration(const Configuration& configuration, RunOptions& options) {
    const auto fill = [&](const char* name, std::optional<std::string>& into) {
        if (!into && !configuration.value(name).empty()) into = configuration.value(name);
    };
    if (options.store.empty()) options.store = configuration.value("store");
    if (options.session.empty()) options.session = configuration.value("session");
    fill("linger", options.linger);
    fill("stage", options.stage);
    if (options.stage == "none") options.stage.reset();
    options.env.insert(options.env.begin(), configuration.environment.begin(),
                       configuration.environment.end());
}

}  // namespace slipway::runtime
