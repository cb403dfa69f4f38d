// Reads registries.conf and certs.d.
// Must not: connect to anything.
#include "config.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"

namespace slipway::image {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string config_home() {
    const std::string home = variable("XDG_CONFIG_HOME");
    return home.empty() ? join_path(home_directory(), ".config") : home;
}

std::string_view trim(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// A line without its comment; "#" within quotes is none.
std::string_view without_comment(std::string_view line) {
    char quote = 0;
    for (size_t i = 0; i < line.size(); ++i) {
        if (quote != 0) {
            if (line[i] == '\\' && quote == '"')
                ++i;
            else if (line[i] == quote)
                quote = 0;
        } else if (line[i] == '"' || line[i] == '\'') {
            quote = line[i];
        } else if (line[i] == '#') {
            return line.substr(0, i);
        }
    }
    return line;
}

/// A TOML value as far as [[registry]] needs it: the text of a string, or true and false as they
/// stand.
std::string value_of(std::string_view text, const std::string& subject, size_t line) {
    if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
        text.back() == text.front())
        return std::string(text.substr(1, text.size() - 2));
    if (text == "true" || text == "false") return std::string(text);
    throw Error(ErrorKind::usage, fmt::format("line {} of {} cannot be understood: {}", line,
                                              subject, slipway::quoted(text)))
        .note("a [[registry]] table holds strings, true and false");
}

void set_rule(RegistryRule& rule, std::string_view key, const std::string& value) {
    if (key == "prefix") rule.prefix = value;
    if (key == "location") rule.location = value;
    if (key == "insecure") rule.insecure = value == "true";
    if (key == "blocked") rule.blocked = value == "true";
    if (key == "mirror-by-digest-only") rule.mirror_by_digest_only = value == "true";
}

void set_mirror(RegistryRule::Mirror& mirror, std::string_view key, const std::string& value) {
    if (key == "location") mirror.location = value;
    if (key == "insecure") mirror.insecure = value == "true";
    if (key == "pull-from-mirror") mirror.pull_from = value;
}

/// Whether a name begins with a prefix and goes on at the border of a component; the length of
/// what matched, 0 for none.
size_t match(const std::string& name, const std::string& prefix) {
    if (prefix.starts_with("*.")) {
        const size_t end = std::min(name.find('/'), name.size());
        const std::string host = name.substr(0, end), suffix = prefix.substr(1);
        return host.size() > suffix.size() && host.ends_with(suffix) ? end : 0;
    }
    if (prefix.empty() || !name.starts_with(prefix)) return 0;
    if (name.size() == prefix.size() ||
        std::string_view("/:@").find(name[prefix.size()]) != std::string_view::npos)
        return prefix.size();
    return 0;
}

RegistryEndpoint endpoint_of(const std::string& place, bool insecure, bool mirror) {
    const size_t slash = place.find('/');
    RegistryEndpoint endpoint{place.substr(0, slash),
                              slash == std::string::npos ? "" : place.substr(slash + 1), !insecure,
                              insecure, mirror};
    endpoint.plain_http |= is_loopback(endpoint.host);
    if (endpoint.host == "docker.io") endpoint.host = "registry-1.docker.io";
    return endpoint;
}

/// The files of a directory with a suffix, as whole paths; none if it is not there.
std::vector<std::string> files_in(const std::string& directory, std::string_view suffix) {
    std::vector<std::string> paths;
    auto fd = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!fd) return paths;
    for (const std::string& name : sys::list_directory(fd->get(), directory))
        if (name.ends_with(suffix)) paths.push_back(join_path(directory, name));
    return paths;
}

void read_rules(const std::string& path, std::vector<RegistryRule>& rules) {
    for (RegistryRule& rule : parse_registries_conf(read_file(path), slipway::quoted(path))) {
        std::erase_if(rules, [&](const RegistryRule& old) { return old.prefix == rule.prefix; });
        rules.push_back(std::move(rule));
    }
}

}  // namespace

std::vector<RegistryRule> parse_registries_conf(const std::string& text,
                                                const std::string& subject) {
    enum class Table { other, registry, mirror } table = Table::other;
    std::vector<RegistryRule> rules;
    size_t number = 0;
    for (const std::string& whole : split(text, '\n')) {
        ++number;
        const std::string_view line = trim(without_comment(whole));
        if (line.empty()) continue;
        if (line.starts_with("[") && line.ends_with("]") && line.find('=') == line.npos) {
            table = Table::other;
            if (line == "[[registry]]") {
                table = Table::registry;
                rules.emplace_back();
            } else if (line == "[[registry.mirror]]" && !rules.empty()) {
                table = Table::mirror;
                rules.back().mirrors.emplace_back();
            }
            continue;
        }
        if (table == Table::other) continue;
        const size_t equals = line.find('=');
        const std::string_view key = trim(line.substr(0, equals));
        const std::string value =
            value_of(equals == line.npos ? line : trim(line.substr(equals + 1)), subject, number);
        if (table == Table::registry)
            set_rule(rules.back(), key, value);
        else
            set_mirror(rules.back().mirrors.back(), key, value);
    }
    for (RegistryRule& rule : rules)
        if (rule.prefix.empty()) rule.prefix = rule.location;
    return rules;
}

std::vector<RegistryRule> registry_rules() {
    std::vector<RegistryRule> rules;
    if (const std::string chosen = variable("CONTAINERS_REGISTRIES_CONF"); !chosen.empty()) {
        read_rules(chosen, rules);
        return rules;
    }
    const std::string own = join_path(config_home(), "containers/registries.conf");
    const std::string site = "/etc/containers/registries.conf";
    const std::string main = sys::stat_if_exists(AT_FDCWD, own) ? own : site;
    if (sys::stat_if_exists(AT_FDCWD, main)) read_rules(main, rules);
    for (const std::string& base : {site, own})
        for (const std::string& path : files_in(base + ".d", ".conf")) read_rules(path, rules);
    return rules;
}

std::vector<RegistryEndpoint> endpoints_of(const RegistryReference& reference,
                                           const std::vector<RegistryRule>& rules) {
    const RegistryRule* best = nullptr;
    size_t longest = 0;
    for (const RegistryRule& rule : rules) {
        const size_t length =
            std::max(match(reference.text(), rule.prefix), match(reference.name(), rule.prefix));
        if (length > longest) {
            longest = length;
            best = &rule;
        }
    }
    if (best == nullptr) return {endpoint_of(reference.name(), false, false)};
    if (best->blocked) {
        throw Error(ErrorKind::host_forbids,
                    fmt::format("pulling {} is blocked", slipway::quoted(reference.text())))
            .note(fmt::format("the prefix {} is blocked in registries.conf",
                              slipway::quoted(best->prefix)));
    }
    const std::string rest = reference.name().substr(std::min(longest, reference.name().size()));
    std::vector<RegistryEndpoint> endpoints;
    for (const RegistryRule::Mirror& mirror : best->mirrors) {
        const bool by_digest = !reference.digest.empty();
        if (mirror.pull_from == (by_digest ? "tag-only" : "digest-only")) continue;
        if (best->mirror_by_digest_only && !by_digest) continue;
        endpoints.push_back(endpoint_of(mirror.location + rest, mirror.insecure, true));
    }
    const bool moved = !best->location.empty();
    endpoints.push_back(
        endpoint_of(moved ? best->location + rest : reference.name(), best->insecure, false));
    return endpoints;
}

HttpTrust trust_of(const RegistryEndpoint& endpoint) {
    HttpTrust trust;
    trust.verify = endpoint.verify;
    std::string certificates;
    for (const std::string& base :
         {join_path(config_home(), "containers/certs.d"), std::string("/etc/containers/certs.d"),
          std::string("/etc/docker/certs.d")}) {
        const std::string directory = join_path(base, endpoint.host);
        for (const std::string& path : files_in(directory, ".crt"))
            certificates += read_file(path) + "\n";
        for (const std::string& path : files_in(directory, ".cert")) {
            trust.client_certificate = path;
            trust.client_key = path.substr(0, path.size() - 5) + ".key";
        }
    }
    if (!certificates.empty()) {  // libcurl wants a file
        trust.certificates = std::make_shared<UniqueFd>(sys::memfd_create("certificates"));
        sys::write_all(trust.certificates->get(), certificates.data(), certificates.size(),
                       "certificates");
    }
    return trust;
}

bool is_loopback(const std::string& host) {
    const std::string name =
        host.starts_with("[") ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
    return name == "localhost" || name.starts_with("127.") || name == "[::1]";
}

}  // namespace slipway::image
