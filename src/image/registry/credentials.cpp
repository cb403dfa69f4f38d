// Looks up the credentials of a registry.
// Must not: print a password, or write any file.
#include "credentials.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr const char* kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr const char* kDockerHub = "https://index.docker.io/v1/";

std::optional<std::string> from_base64(const std::string& text) {
    std::string data;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        if (c == '=' || c == '\n' || c == '\r') continue;
        const size_t value = std::string_view(kAlphabet).find(c);
        if (value == std::string_view::npos) return std::nullopt;
        bits = bits << 6 | static_cast<uint32_t>(value);
        if ((count += 6) < 8) continue;
        count -= 8;
        data += static_cast<char>(bits >> count & 0xff);
    }
    return data;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

/// The files that are looked at, in order.
std::vector<std::string> default_files() {
    if (const std::string chosen = variable("REGISTRY_AUTH_FILE"); !chosen.empty()) return {chosen};
    std::vector<std::string> files;
    if (const std::string run = variable("XDG_RUNTIME_DIR"); !run.empty())
        files.push_back(join_path(run, "containers/auth.json"));
    std::string config = variable("XDG_CONFIG_HOME");
    if (config.empty()) config = join_path(home_directory(), ".config");
    files.push_back(join_path(config, "containers/auth.json"));
    std::string docker = variable("DOCKER_CONFIG");
    if (docker.empty()) docker = join_path(home_directory(), ".docker");
    files.push_back(join_path(docker, "config.json"));
    files.push_back(join_path(home_directory(), ".dockercfg"));
    return files;
}

/// A key of an auth file as "host[/namespace]": older tools wrote addresses.
std::string plain_key(std::string key) {
    const bool address = key.starts_with("https://") || key.starts_with("http://");
    if (address) key.erase(0, key.find("//") + 2);
    while (key.ends_with('/')) key.pop_back();
    if (address) key.resize(std::min(key.find('/'), key.size()));
    for (const char* alias : {"index.docker.io", "registry-1.docker.io"})
        if (key == alias) return "docker.io";
    return key;
}

/// "host/a/b", "host/a", "host": the most specific first.
std::vector<std::string> places(const std::string& host, const std::string& repository) {
    std::vector<std::string> keys{host + "/" + repository};
    while (keys.back().size() > host.size())
        keys.push_back(keys.back().substr(0, keys.back().rfind('/')));
    return keys;
}

RegistryCredentials parse_entry(const Json& entry, const std::string& file) {
    RegistryCredentials found;
    found.origin = slipway::quoted(file);
    found.identity_token = json_string(entry, "identitytoken", file, {}, ErrorKind::usage);
    found.user = json_string(entry, "username", file, {}, ErrorKind::usage);
    found.password = json_string(entry, "password", file, {}, ErrorKind::usage);
    const std::string packed = json_string(entry, "auth", file, {}, ErrorKind::usage);
    if (packed.empty()) return found;
    const auto plain = from_base64(packed);
    const size_t colon = plain ? plain->find(':') : std::string::npos;
    if (colon == std::string::npos) {
        throw Error(ErrorKind::usage,
                    fmt::format("an entry of {} cannot be understood: \"auth\" is no base64 of "
                                "USER:PASSWORD",
                                slipway::quoted(file)))
            .hint("log in again, for example with: skopeo login HOST");
    }
    found.user = plain->substr(0, colon);
    found.password = plain->substr(colon + 1);
    while (found.password.ends_with('\0')) found.password.pop_back();
    return found;
}

/// Ask docker-credential-NAME; std::nullopt if it knows nothing of the host.
std::optional<RegistryCredentials> ask_helper(const std::string& name, const std::string& host) {
    const std::string program = "docker-credential-" + name;
    CommandOptions command;
    command.argv = {program, "get"};
    command.input = host == "docker.io" ? kDockerHub : host;
    command.capture_errors = true;
    CommandResult result;
    try {
        result = run_command(command);
    } catch (Error& error) {
        error.note(fmt::format("it keeps the password for {}", host));
        throw;
    }
    if (!result.status.success()) {
        log::verbose("{} knows nothing of {}: {}{}", program, host, result.output, result.errors);
        return std::nullopt;
    }
    const Json answer = parse_json(result.output, "the answer of " + program, ErrorKind::usage);
    RegistryCredentials found;
    found.origin = program;
    found.user = json_string(answer, "Username", program, {}, ErrorKind::usage);
    found.password = json_string(answer, "Secret", program, {}, ErrorKind::usage);
    if (found.user == "<token>") {
        found.identity_token = found.password;
        found.user.clear();
        found.password.clear();
    }
    return found;
}

std::string helper_for(const Json& json, const std::string& key) {
    const auto helpers = json.find("credHelpers");
    if (helpers == json.end() || !helpers->is_object()) return {};
    for (const auto& [host, name] : helpers->items())
        if (plain_key(host) == key && name.is_string()) return name.get<std::string>();
    return {};
}

const Json* entry_for(const Json& entries, const std::string& key) {
    for (const auto& [name, entry] : entries.items())
        if (plain_key(name) == key && entry.is_object()) return &entry;
    return nullptr;
}

std::optional<RegistryCredentials> look_into(const std::string& file, const std::string& host,
                                             const std::string& repository) {
    const Json json = parse_json(read_file(file), slipway::quoted(file), ErrorKind::usage);
    if (!json.is_object()) return std::nullopt;
    const bool legacy = base_name(file) == ".dockercfg";
    const auto auths = json.find("auths");
    const Json none = Json::object();
    const Json& entries = legacy ? json : auths != json.end() && auths->is_object() ? *auths : none;
    for (const std::string& key : places(host, repository)) {
        if (const std::string helper = helper_for(json, key); !helper.empty())
            if (auto found = ask_helper(helper, key)) return found;
        if (const Json* entry = entry_for(entries, key)) {
            RegistryCredentials found = parse_entry(*entry, file);
            if (!found.user.empty() || !found.identity_token.empty()) return found;
        }
    }
    const std::string store = json_string(json, "credsStore", file, {}, ErrorKind::usage);
    if (!legacy && !store.empty()) return ask_helper(store, host);
    return std::nullopt;
}

}  // namespace

std::string base64(const std::string& data) {
    std::string text;
    for (size_t i = 0; i < data.size(); i += 3) {
        const auto byte = [&](size_t at) {
            return at < data.size() ? static_cast<uint32_t>(static_cast<unsigned char>(data[at]))
                                    : 0u;
        };
        const uint32_t bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        for (size_t k = 0; k < 4; ++k)
            text += i + k > data.size() ? '=' : kAlphabet[bits >> (18 - 6 * k) & 63];
    }
    return text;
}

std::optional<RegistryCredentials> find_credentials(const std::string& host,
                                                    const std::string& repository,
                                                    const std::string& file) {
    if (!file.empty() && !sys::stat_if_exists(AT_FDCWD, file)) {
        throw Error(ErrorKind::not_found,
                    fmt::format("there is no credentials file {}", slipway::quoted(file)))
            .note("requested by: --authfile");
    }
    for (const std::string& path : file.empty() ? default_files() : std::vector{file}) {
        if (!sys::stat_if_exists(AT_FDCWD, path)) continue;
        if (auto found = look_into(path, host, repository)) return found;
    }
    return std::nullopt;
}

}  // namespace slipway::image
