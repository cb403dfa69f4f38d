// The machine's own apt configuration, and what it says about a suite to bootstrap.
// Must not: download anything.
#include "apt_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    for (const std::string& word : split_blanks(trim(text)))
        if (!word.empty()) words.push_back(word);
    return words;
}

std::string without_slash(std::string uri) {
    while (!uri.empty() && uri.back() == '/') uri.pop_back();
    return uri;
}

using Stanza = std::map<std::string, std::string>;

/// deb822: fields with continuation lines, stanzas separated by empty lines.
std::vector<Stanza> parse_stanzas(const std::string& text) {
    std::vector<Stanza> stanzas(1);
    std::string field;
    for (const std::string& line : split(text, '\n')) {
        if (starts_with(line, "#")) continue;
        if (trim(line).empty()) {
            if (!stanzas.back().empty()) stanzas.emplace_back();
            field.clear();
        } else if (is_space(static_cast<unsigned char>(line[0]))) {
            if (!field.empty()) stanzas.back()[field] += "\n" + std::string(trim(line));
        } else if (const size_t colon = line.find(':'); colon != std::string::npos) {
            field = to_lower(line.substr(0, colon));
            stanzas.back()[field] = trim(line.substr(colon + 1));
        }
    }
    if (stanzas.back().empty()) stanzas.pop_back();
    return stanzas;
}

std::optional<AptSource> parse_line(const std::string& line) {
    std::string text = line.substr(0, line.find('#'));
    auto words = words_of(text);
    if (words.size() < 3 || words[0] != "deb") return std::nullopt;
    AptSource source;
    if (starts_with(words[1], "[")) {
        const size_t open = text.find('['), close = text.find(']');
        if (close == std::string::npos) return std::nullopt;
        for (const std::string& option : words_of(text.substr(open + 1, close - open - 1)))
            if (starts_with(to_lower(option), "signed-by=")) source.signed_by = option.substr(10);
        words = words_of("deb " + text.substr(close + 1));
        if (words.size() < 3) return std::nullopt;
    }
    source.uri = without_slash(words[1]);
    source.suite = words[2];
    source.components.assign(words.begin() + 3, words.end());
    return source;
}

bool is_security(const AptSource& source, const std::string& codename) {
    return source.suite == codename + "-security" || source.suite == codename + "/updates";
}

constexpr const char* kUbuntuKeyring = "/usr/share/keyrings/ubuntu-archive-keyring.gpg";
constexpr const char* kDebianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

std::vector<AptSource> default_sources(const std::string& id, const std::string& suite) {
    if (id == "ubuntu") {
        const std::string uri = "http://archive.ubuntu.com/ubuntu";
        return {{uri, suite, {"main", "universe"}, kUbuntuKeyring},
                {uri, suite + "-updates", {"main", "universe"}, kUbuntuKeyring},
                {"http://security.ubuntu.com/ubuntu",
                 suite + "-security",
                 {"main", "universe"},
                 kUbuntuKeyring}};
    }
    const std::string uri = "http://deb.debian.org/debian";
    std::vector<AptSource> sources = {{uri, suite, {"main"}, kDebianKeyring}};
    if (suite != "sid" && suite != "unstable" && suite != "testing") {
        sources.push_back({uri, suite + "-updates", {"main"}, kDebianKeyring});
        sources.push_back({"http://deb.debian.org/debian-security",
                           suite + "-security",
                           {"main"},
                           kDebianKeyring});
    }
    return sources;
}

}  // namespace

std::vector<AptSource> parse_sources_list(const std::string& text) {
    std::vector<AptSource> sources;
    for (const std::string& line : split(text, '\n'))
        if (auto source = parse_line(line)) sources.push_back(std::move(*source));
    return sources;
}

std::vector<AptSource> parse_deb822_sources(const std::string& text) {
    std::vector<AptSource> sources;
    for (Stanza& stanza : parse_stanzas(text)) {
        const auto types = words_of(stanza["types"]);
        const bool binary = std::find(types.begin(), types.end(), "deb") != types.end();
        if (!binary || to_lower(stanza["enabled"]) == "no") continue;
        // A key that stands in the file itself has no path that others could name.
        const std::string signed_by = stanza["signed-by"];
        const bool path = starts_with(signed_by, "/") && signed_by.find('\n') == std::string::npos;
        for (const std::string& uri : words_of(stanza["uris"]))
            for (const std::string& suite : words_of(stanza["suites"]))
                sources.push_back({without_slash(uri), suite, words_of(stanza["components"]),
                                   path ? signed_by : ""});
    }
    return sources;
}

std::vector<AptSource> read_host_sources() {
    std::vector<AptSource> sources;
    const auto add = [&](const std::string& path) {
        if (!sys::stat_if_exists(AT_FDCWD, path)) return;
        const std::string text = read_file(path);
        auto found =
            path.ends_with(".sources") ? parse_deb822_sources(text) : parse_sources_list(text);
        sources.insert(sources.end(), found.begin(), found.end());
    };
    add("/etc/apt/sources.list");
    const std::string parts = "/etc/apt/sources.list.d";
    if (auto directory = sys::openat_if_exists(AT_FDCWD, parts, O_RDONLY | O_DIRECTORY))
        for (const std::string& name : sys::list_directory(directory->get(), parts))
            if (name.ends_with(".list") || name.ends_with(".sources")) add(join_path(parts, name));
    return sources;
}

Distribution read_host_distribution() {
    Distribution host;
    for (const char* path : {"/etc/os-release", "/usr/lib/os-release"}) {
        if (!sys::stat_if_exists(AT_FDCWD, path)) continue;
        for (const std::string& line : split(read_file(path), '\n')) {
            const size_t equals = line.find('=');
            if (equals == std::string::npos) continue;
            std::string value(trim(line.substr(equals + 1)));
            std::erase(value, '"');
            if (line.substr(0, equals) == "ID") host.id = value;
            if (line.substr(0, equals) == "VERSION_CODENAME") host.codename = value;
        }
        break;
    }
    return host;
}

std::string distribution_of(const std::string& suite, const Distribution& host) {
    static const std::vector<std::string> kDebian = {"buster", "bullseye", "bookworm", "trixie",
                                                     "forky",  "sid",      "unstable", "testing",
                                                     "stable", "oldstable"};
    static const std::vector<std::string> kUbuntu = {"bionic",   "focal",  "jammy",    "noble",
                                                     "oracular", "plucky", "questing", "resolute"};
    if (std::find(kDebian.begin(), kDebian.end(), suite) != kDebian.end()) return "debian";
    if (std::find(kUbuntu.begin(), kUbuntu.end(), suite) != kUbuntu.end()) return "ubuntu";
    return host.id.empty() ? "debian" : host.id;
}

std::vector<AptSource> plan_sources(const std::string& suite, const std::string& mirror,
                                    const Distribution& host,
                                    const std::vector<AptSource>& host_sources) {
    const std::string id = distribution_of(suite, host);
    std::vector<AptSource> sources;
    if (id == host.id) {
        const auto take = [&](const AptSource& source, const std::string& pocket) {
            AptSource mine = source;
            mine.suite = suite + pocket;
            const bool twice = std::any_of(sources.begin(), sources.end(), [&](const auto& old) {
                return old.suite == mine.suite && old.uri == mine.uri;
            });
            if (!twice) sources.push_back(std::move(mine));
        };
        const bool rolling = suite == "sid" || suite == "unstable" || suite == "testing";
        for (const AptSource& source : host_sources)
            if (source.suite == host.codename) take(source, "");
        for (const AptSource& source : host_sources) {
            if (!rolling && source.suite == host.codename + "-updates") take(source, "-updates");
            if (!rolling && is_security(source, host.codename)) take(source, "-security");
        }
        if (!sources.empty() && sources[0].suite != suite) sources.clear();
    }
    if (sources.empty()) sources = default_sources(id, suite);
    if (!mirror.empty()) {
        // The pockets that stood on the replaced mirror move with it.
        const std::string old = sources[0].uri;
        for (AptSource& source : sources)
            if (source.uri == old) source.uri = without_slash(mirror);
    }
    return sources;
}

std::string to_line(const AptSource& source) {
    const std::string option =
        source.signed_by.empty() ? "" : fmt::format("[signed-by={}] ", source.signed_by);
    return fmt::format("deb {}{} {} {}", option, source.uri, source.suite,
                       join(source.components, " "));
}

}  // namespace slipway::builder
