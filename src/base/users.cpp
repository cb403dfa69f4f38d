// Looks users and groups up.
// Must not: ask the name services for what the files tell: they open sockets and load libraries.
#include "slipway/base/users.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {

namespace {

constexpr size_t kFields = 7;
using Fields = std::array<std::string_view, kFields>;

/// What a file holds, or "" where it cannot be read.
std::string text_of(const char* path) {
    try {
        return read_file(path);
    } catch (const Error&) {
        return {};
    }
}

/// The first line whose third field is `id`. A compatibility line ("+...", "-...") says that the
/// name services come in between: then the files do not tell.
std::optional<Fields> find_line(std::string_view text, uint32_t id) {
    const std::string wanted = std::to_string(id);
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.starts_with('+') || line.starts_with('-')) return std::nullopt;
        const size_t second = line.find(':', line.find(':') + 1);
        if (second == line.npos || !line.substr(second + 1).starts_with(wanted)) continue;
        Fields fields{};
        std::string_view rest = line;
        for (size_t i = 0; i < kFields && !rest.empty(); ++i) {
            fields[i] = rest.substr(0, rest.find(':'));
            rest.remove_prefix(std::min(fields[i].size() + 1, rest.size()));
        }
        if (fields[2] == wanted && !fields[0].empty()) return fields;
    }
    return std::nullopt;
}

/// The starter cannot load them: it goes on as the full program, or, where somebody copied it
/// alone, without them.
bool can_ask_name_services() {
    static bool missing = false;
    try {
        if (!missing) need_full_program();
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::not_found) throw;
        log::warning("the site's name services are not asked: {}", error.message());
        missing = true;
    }
    return !missing;
}

}  // namespace

std::optional<UserEntry> find_user(uint32_t uid) {
    const std::string text = text_of("/etc/passwd");
    if (const auto fields = find_line(text, uid))
        return UserEntry{std::string((*fields)[0]), std::string((*fields)[5]),
                         std::string((*fields)[6])};
    if (!can_ask_name_services()) return std::nullopt;
    const passwd* entry = ::getpwuid(uid);
    if (entry == nullptr) return std::nullopt;
    return UserEntry{entry->pw_name, entry->pw_dir == nullptr ? "" : entry->pw_dir,
                     entry->pw_shell == nullptr ? "" : entry->pw_shell};
}

std::optional<std::string> find_group(uint32_t gid) {
    const std::string text = text_of("/etc/group");
    if (const auto fields = find_line(text, gid)) return std::string((*fields)[0]);
    if (!can_ask_name_services()) return std::nullopt;
    const group* entry = ::getgrgid(gid);
    if (entry == nullptr) return std::nullopt;
    return std::string(entry->gr_name);
}

}  // namespace slipway
