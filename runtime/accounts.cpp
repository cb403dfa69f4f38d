// Words the caller's entries for passwd and group, and merges them into the image's files.
// Must not: read or write a file; the plan holds the lines, the executor the image.
#include "accounts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace slipway::runtime {

namespace {

/// Ids of the kernel's "nobody", which unmapped owners show as.
constexpr uint32_t kOverflowId = 65534;

/// One line, without its end. Name and id are empty where it is no entry.
struct Line {
    std::string_view text, name, id;
};

Line parse_line(std::string_view text) {
    Line line{text, {}, {}};
    const size_t name_end = text.find(':');
    if (name_end == 0 || name_end == std::string_view::npos) return line;
    const size_t id_at = text.find(':', name_end + 1);
    if (id_at == std::string_view::npos) return line;
    const std::string_view id = text.substr(id_at + 1, text.find(':', id_at + 1) - id_at - 1);
    if (id.empty() || id.find_first_not_of("0123456789") != std::string_view::npos) return line;
    line.name = text.substr(0, name_end);
    line.id = id;
    return line;
}

std::vector<Line> parse_lines(std::string_view text) {
    std::vector<Line> lines;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        lines.push_back(parse_line(text.substr(0, end)));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

/// Put `own` in front of the first line that shares its name or id, and drop those of its name.
void put_own(std::vector<Line>& lines, const Line& own) {
    std::vector<Line> merged;
    bool placed = false;
    for (const Line& line : lines) {
        const bool same_name = line.name == own.name;
        if (!placed && (same_name || line.id == own.id)) {
            merged.push_back(own);
            placed = true;
        }
        if (!same_name) merged.push_back(line);
    }
    if (!placed) merged.push_back(own);
    lines = std::move(merged);
}

bool knows(const std::vector<Line>& lines, const Line& wanted) {
    for (const Line& line : lines)
        if (line.name == wanted.name || line.id == wanted.id) return true;
    return false;
}

}  // namespace

AccountLines passwd_lines(const PlannedIdentity& identity, const std::string& home) {
    AccountLines lines;
    lines.fallback = fmt::format(
        "root:x:0:0:root:/root:/bin/sh\n"
        "nobody:x:{0}:{0}:nobody:/:/usr/sbin/nologin\n",
        kOverflowId);
    if (identity.uid == 0 || identity.uid == kOverflowId) return lines;
    if (identity.own && !identity.name.empty())
        lines.own = fmt::format("{}:x:{}:{}::{}:{}\n", identity.name, identity.uid, identity.gid,
                                home, identity.shell.empty() ? "/bin/sh" : identity.shell);
    else
        lines.fallback +=
            fmt::format("uid{0}:x:{0}:{1}::{2}:/bin/sh\n", identity.uid, identity.gid, home);
    return lines;
}

AccountLines group_lines(const PlannedIdentity& identity) {
    AccountLines lines;
    lines.fallback = fmt::format("root:x:0:\nnogroup:x:{}:\n", kOverflowId);
    if (identity.gid == 0 || identity.gid == kOverflowId) return lines;
    if (identity.own_group && !identity.group.empty())
        lines.own = fmt::format("{}:x:{}:\n", identity.group, identity.gid);
    else
        lines.fallback += fmt::format("gid{0}:x:{0}:\n", identity.gid);
    return lines;
}

std::string with_present_shells(std::string_view lines,
                                const std::function<bool(const std::string&)>& is_there) {
    std::string text;
    while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(line.size() + 1, lines.size()));
        const size_t shell = line.rfind(':') + 1;
        const bool present = is_there(std::string(line.substr(shell)));
        text += present ? line : line.substr(0, shell);
        if (!present) text += "/bin/sh";
        text += '\n';
    }
    return text;
}

std::string merge_accounts(std::string_view image, std::string_view own,
                           std::string_view fallback) {
    std::vector<Line> lines = parse_lines(image);
    for (const Line& line : parse_lines(own)) put_own(lines, line);
    for (const Line& line : parse_lines(fallback))
        if (!knows(lines, line)) lines.push_back(line);
    std::string text;
    for (const Line& line : lines) {
        text += line.text;
        text += '\n';
    }
    return text;
}

}  // namespace slipway::runtime
