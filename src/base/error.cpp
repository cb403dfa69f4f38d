// Errors as data: kinds and slugs, wording of errno, rendering, and the wire form from child to
// parent. Must not: print anything.
#include "slipway/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace slipway {
namespace {

struct KindRow {
    ErrorKind kind;
    std::string_view slug;
};
constexpr std::array kKinds{
    KindRow{ErrorKind::usage, "usage"},
    KindRow{ErrorKind::not_found, "not-found"},
    KindRow{ErrorKind::already_exists, "already-exists"},
    KindRow{ErrorKind::invalid_image, "invalid-image"},
    KindRow{ErrorKind::invalid_archive, "invalid-archive"},
    KindRow{ErrorKind::unsafe_path, "unsafe-path"},
    KindRow{ErrorKind::invalid_recipe, "invalid-recipe"},
    KindRow{ErrorKind::unsupported, "unsupported"},
    KindRow{ErrorKind::host_forbids, "host-forbids"},
    KindRow{ErrorKind::permission, "permission"},
    KindRow{ErrorKind::conflict, "conflict"},
    KindRow{ErrorKind::busy, "busy"},
    KindRow{ErrorKind::no_space, "no-space"},
    KindRow{ErrorKind::io, "io"},
    KindRow{ErrorKind::command_failed, "command-failed"},
    KindRow{ErrorKind::invalid_data, "invalid-data"},
    KindRow{ErrorKind::launcher, "launcher"},
    KindRow{ErrorKind::internal, "internal"},
};

ErrorKind kind_of_errno(int value) {
    switch (value) {
        case ENOENT:
        case ENOTDIR:
            return ErrorKind::not_found;
        case EEXIST:
        case ENOTEMPTY:
            return ErrorKind::already_exists;
        case EACCES:
        case EPERM:
        case EROFS:
            return ErrorKind::permission;
        case ENOSPC:
        case EDQUOT:
            return ErrorKind::no_space;
        case EBUSY:
        case ETXTBSY:
            return ErrorKind::busy;
        default:
            return ErrorKind::io;
    }
}

/// Some calls reuse an errno for something that its usual text does not say.
std::string errno_text(int value, std::string_view call) {
    if (value == ENOSPC && (call == "mount" || call == "move_mount" || call == "open_tree"))
        return "too many mounts in this namespace";
    if (value == ELOOP && call == "mount") return "too many layers or a loop among them";
    if (value == ENOSPC && call == "unshare") return "the limit of namespaces is reached";
    return std::strerror(value);
}

}  // namespace

const std::vector<ErrorKind>& all_error_kinds() {
    static const std::vector<ErrorKind> kinds = [] {
        std::vector<ErrorKind> list;
        for (const auto& row : kKinds) list.push_back(row.kind);
        return list;
    }();
    return kinds;
}

std::string_view slug(ErrorKind kind) {
    for (const auto& row : kKinds)
        if (row.kind == kind) return row.slug;
    return "internal";
}

Error::Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

Error& Error::note(std::string text) & {
    notes_.push_back(std::move(text));
    return *this;
}
Error&& Error::note(std::string text) && { return std::move(note(std::move(text))); }
Error& Error::hint(std::string text) & {
    hint_ = std::move(text);
    return *this;
}
Error&& Error::hint(std::string text) && { return std::move(hint(std::move(text))); }
Error& Error::exit_status(int status) & {
    exit_status_ = status;
    return *this;
}
Error&& Error::exit_status(int status) && { return std::move(exit_status(status)); }

std::string Error::render() const {
    std::string text = "error: " + message_ + "\n";
    for (const auto& line : notes_) text += "  " + line + "\n";
    if (!hint_.empty()) text += "  try: " + hint_ + "\n";
    return text;
}

std::string Error::serialize() const {
    const nlohmann::json json{{"kind", slug(kind_)}, {"message", message_}, {"notes", notes_},
                              {"hint", hint_},       {"errno", errno_},     {"exit", exit_status_}};
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error parse_error(std::string_view line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object())
        return {ErrorKind::internal, "a child process sent an error that cannot be read"};
    ErrorKind kind = ErrorKind::internal;
    for (const auto& row : kKinds)
        if (row.slug == json.value("kind", "")) kind = row.kind;
    Error error(kind, json.value("message", ""));
    error.notes_ = json.value("notes", std::vector<std::string>{});
    error.hint_ = json.value("hint", "");
    error.errno_ = json.value("errno", 0);
    error.exit_status_ = json.value("exit", kExitOwnFailure);
    return error;
}

SysError::SysError(std::string_view action, std::string_view call)
    : SysError(errno, action, call) {}

SysError::SysError(int errno_value, std::string_view action, std::string_view call)
    : Error(kind_of_errno(errno_value),
            fmt::format("{}: {} ({}, {})", action, errno_text(errno_value, call),
                        errno_name(errno_value), call)) {
    errno_ = errno_value;
    if (kind_ == ErrorKind::no_space && call != "mount" && call != "move_mount" &&
        call != "open_tree")
        hint_ = "free some space or quota there, or use another place (SLIPWAY_STORE, TMPDIR)";
    if (errno_value == EMFILE) hint_ = "allow more open files: ulimit -n 256";
}

std::string errno_name(int errno_value) {
    if (const char* name = strerrorname_np(errno_value)) return name;
    return fmt::format("errno {}", errno_value);
}

std::string quoted(std::string_view text) {
    const auto is_plain = [](char raw) {
        const auto byte = static_cast<unsigned char>(raw);
        return byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\';
    };
    std::string out;
    out.reserve(text.size() + 2);
    out += '"';
    while (!text.empty()) {
        const auto plain =
            static_cast<size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
        out += text.substr(0, plain);
        text.remove_prefix(plain);
        if (text.empty()) break;
        if (text[0] == '"' || text[0] == '\\')
            out += {'\\', text[0]};
        else
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
        text.remove_prefix(1);
    }
    return out += '"';
}

}  // namespace slipway
