// Reads files of settings, strictly: a key that is misspelt is an error, not a setting that is
// ignored. Must not: know what any key means.
#include "settings_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>

#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

constexpr uint64_t kMaxBytes = 1 << 20;

std::string list_of(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

std::string nearest(const std::string& key, const std::vector<std::string>& known) {
    const auto best =
        std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
            return edit_distance(key, a) < edit_distance(key, b);
        });
    return best != known.end() && edit_distance(key, *best) <= 2 ? *best : "";
}

}  // namespace

Error setting_error(const std::string& path, const std::string& key, const std::string& problem) {
    return Error(ErrorKind::usage,
                 fmt::format("{} in {} {}", slipway::quoted(key), slipway::quoted(path), problem));
}

Json parse_settings(const std::string& text, const std::string& path,
                    const std::vector<std::string>& known) {
    Json object = parse_json(text, slipway::quoted(path), ErrorKind::usage);
    if (!object.is_object())
        throw Error(ErrorKind::usage, fmt::format("{} is not a JSON object", slipway::quoted(path)))
            .hint("write {\"" + known.front() + "\": ...}");
    for (const auto& [key, value] : object.items()) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        const std::string meant = nearest(key, known);
        throw setting_error(path, key, "is not known")
            .hint(meant.empty()
                      ? "choose among: " + list_of(known)
                      : fmt::format("write {} if that was meant", slipway::quoted(meant)));
    }
    return object;
}

std::optional<Json> read_settings_file(const std::string& path,
                                       const std::vector<std::string>& known) {
    const auto fd = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
    if (!fd) return std::nullopt;
    return parse_settings(read_all(fd->get(), path, kMaxBytes), path, known);
}

}  // namespace slipway::runtime
