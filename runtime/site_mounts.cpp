// Reads the binds of mounts.d directories.
// Must not: look at what the lines name; the planner knows what is missing.
#include "site_mounts.hpp"

#include <fmt/core.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "site.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

struct Expanded {
    std::string text;
    std::string unset;  ///< the first variable that is not set
};

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Expand $NAME and ${NAME}; a "$" before anything else stands for itself.
Expanded expand(std::string_view text, const Lookup& lookup) {
    Expanded result;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool braced = text.substr(i).starts_with("${");
        const size_t start = i + (braced ? 2 : 1);
        size_t end = start;
        while (end < text.size() && in_name(text[end])) ++end;
        if (text[i] != '$' || end == start ||
            (braced && (end == text.size() || text[end] != '}'))) {
            result.text += text[i];
            continue;
        }
        const std::string name(text.substr(start, end - start));
        const auto value = lookup(name);
        if (value && !value->empty())
            result.text += *value;
        else if (result.unset.empty())
            result.unset = name;
        i = braced ? end : end - 1;
    }
    return result;
}

std::string trimmed(std::string_view line) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') return {};
    return std::string(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
}

/// Split the line first, so that a value with a colon in it stays one path.
std::optional<BindSpec> read_line(const Typed& line, const Lookup& lookup) {
    auto parts = split(line.text, ':');
    const bool optional =
        parts.size() > 2 && (',' + parts[2] + ',').find(",optional,") != std::string::npos;
    for (size_t i = 0; i < parts.size() && i < 2; ++i) {
        const Expanded expanded = expand(parts[i], lookup);
        if (!expanded.unset.empty() && optional) return std::nullopt;
        if (!expanded.unset.empty())
            throw Error(ErrorKind::usage, fmt::format("the variable {} is not set", expanded.unset))
                .note("requested by: " + line.origin)
                .hint(
                    "set it, or add \":optional\" after the destination: the line then counts "
                    "only where the variable is set");
        parts[i] = expanded.text;
    }
    if (!parts[0].starts_with('/'))
        throw Error(ErrorKind::usage,
                    fmt::format("the source {} is not absolute", slipway::quoted(parts[0])))
            .note("requested by: " + line.origin)
            .hint("write SRC[:DST[:OPTIONS]] with absolute paths");
    return make_bind(line, parts);
}

/// Nothing if it is not there, or is somebody else's: $HOME may be left from another user.
std::optional<UniqueFd> open_settings(const std::string& directory) {
    try {
        return sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    } catch (const SysError& error) {
        if (error.errno_value() != EACCES) throw;
        return std::nullopt;
    }
}

void read_directory(const std::string& directory, std::vector<BindSpec>& binds) {
    const auto dir = open_settings(directory);
    if (!dir) return;
    const Lookup lookup = [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
    };
    for (const auto& name : sys::list_directory(dir->get(), directory)) {
        if (!name.ends_with(".conf") || name.starts_with('.')) continue;
        const std::string path = join_path(directory, name);
        for (auto& bind : parse_site_mounts(read_file(path, kMaxFileBytes), path, lookup))
            binds.push_back(std::move(bind));
    }
}

std::string user_directory() {
    const char* chosen = std::getenv("XDG_CONFIG_HOME");
    const std::string base = chosen != nullptr && *chosen == '/'
                                 ? std::string(chosen)
                                 : join_path(home_directory(), ".config");
    return join_path(base, "slipway");
}

}  // namespace

std::vector<BindSpec> parse_site_mounts(const std::string& text, const std::string& name,
                                        const Lookup& lookup) {
    std::vector<BindSpec> binds;
    size_t number = 0;
    for (const auto& raw : split(text, '\n')) {
        ++number;
        const std::string line = trimmed(raw);
        if (line.empty()) continue;
        auto bind = read_line({line, fmt::format("{}, line {}", name, number)}, lookup);
        if (bind) binds.push_back(std::move(*bind));
    }
    return binds;
}

std::vector<BindSpec> read_site_mounts() {
    std::vector<BindSpec> binds;
    read_directory(join_path(site_directory(), "mounts.d"), binds);
    read_directory(join_path(user_directory(), "mounts.d"), binds);
    return binds;
}

}  // namespace slipway::runtime
