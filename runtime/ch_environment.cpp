// Makes an environment by ch-run's rules.
// Must not: read our own environment, or any file.
#include "slipway/runtime/ch_environment.hpp"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "slipway/base/error.hpp"

namespace slipway::runtime {

namespace {

/// A list of "VAR=VALUE" with the manners of setenv(3): a known variable keeps its place.
class Variables {
 public:
    explicit Variables(std::vector<std::string> entries) : entries_(std::move(entries)) {}

    std::optional<std::string> get(std::string_view name) const {
        for (const auto& entry : entries_)
            if (is(entry, name)) return entry.substr(name.size() + 1);
        return std::nullopt;
    }
    void set(const std::string& name, const std::string& value) {
        const auto found = std::find_if(entries_.begin(), entries_.end(),
                                        [&](const auto& entry) { return is(entry, name); });
        if (found == entries_.end())
            entries_.push_back(name + "=" + value);
        else
            *found = name + "=" + value;
    }
    void unset(std::string_view name) {
        std::erase_if(entries_, [&](const auto& entry) { return is(entry, name); });
    }
    void unset_matching(const std::string& glob) {
        std::erase_if(entries_, [&](const auto& entry) {
            const std::string name = entry.substr(0, entry.find('='));
            return ::fnmatch(glob.c_str(), name.c_str(), FNM_EXTMATCH) == 0;
        });
    }
    std::vector<std::string> take() && { return std::move(entries_); }

 private:
    static bool is(std::string_view entry, std::string_view name) {
        return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
    }
    std::vector<std::string> entries_;
};

std::string_view without_quotes(std::string_view value) {
    const bool quoted = value.size() >= 2 && value.front() == '\'' && value.back() == '\'';
    return quoted ? value.substr(1, value.size() - 2) : value;
}

/// Expand the items of a list that are "$VAR"; an item that expands to nothing goes with its colon.
std::string expand_items(std::string_view value, const Variables& variables) {
    std::string result;
    bool first = true;
    for (size_t from = 0; from <= value.size();) {
        const size_t to = std::min(value.find(':', from), value.size());
        std::string item(value.substr(from, to - from));
        from = to + 1;
        if (item.size() > 1 && item[0] == '$') {
            item = variables.get(std::string_view(item).substr(1)).value_or("");
            if (item.empty()) continue;
        }
        if (!first) result += ':';
        result += item;
        first = false;
    }
    return result;
}

void assign(Variables& variables, const ChEnvChange& change, bool expand) {
    const size_t equals = change.text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw Error(
            ErrorKind::usage,
            fmt::format("cannot understand the assignment {}: {}", slipway::quoted(change.text),
                        equals == 0 ? "the name is empty" : "it has no \"=\""))
            .note("requested by: " + change.origin)
            .hint("write VAR=VALUE");
    const std::string name = change.text.substr(0, equals);
    if (change.kind == ChEnvChange::Kind::literal)
        return variables.set(name, change.text.substr(equals + 1));
    const std::string_view value = without_quotes(std::string_view(change.text).substr(equals + 1));
    variables.set(name, expand ? expand_items(value, variables) : std::string(value));
}

/// Tell whether a search path has a directory that begins with /bin, which is how ch-run looks.
bool has_bin(std::string_view path) {
    return path.starts_with("/bin") || path.find(":/bin") != std::string_view::npos;
}

}  // namespace

std::vector<std::string> plan_ch_environment(std::vector<std::string> host,
                                             const ChEnvRequest& request) {
    Variables variables(std::move(host));
    if (request.adjust) {
        variables.set("HOME", request.home);
        if (const auto path = variables.get("PATH"); path && !has_bin(*path))
            variables.set("PATH", *path + ":/bin");
        variables.unset("TMPDIR");
    }
    if (request.mark) variables.unset("GC_MARKERS");  // as ch-run, which means its own collector
    for (const auto& change : request.changes) {
        if (change.kind == ChEnvChange::Kind::unset)
            variables.unset_matching(change.text);
        else
            assign(variables, change, request.expand);
    }
    if (request.mark) variables.set("CH_RUNNING", "Weird Al Yankovic");
    return std::move(variables).take();
}

std::vector<ChEnvChange> split_ch_assignments(std::string_view text, char separator,
                                              const std::string& name) {
    std::vector<ChEnvChange> changes;
    for (size_t number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find(separator), text.size());
        if (end > 0)
            changes.push_back({ChEnvChange::Kind::assign, std::string(text.substr(0, end)),
                               fmt::format("{}:{}", name, number)});
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return changes;
}

}  // namespace slipway::runtime
