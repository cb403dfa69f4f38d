// RUN --mount: understands the option and refuses, aloud, what this version cannot do.
// Must not: look at files or stages.
#include "mount_option.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

[[noreturn]] void fail(const std::string& mount, const std::string& what) {
    throw Error(ErrorKind::invalid_recipe, fmt::format("--mount={}: {}", mount, what));
}

bool parse_bool(const std::string& mount, const std::string& key, const std::string& value) {
    const std::string text = to_lower(value);
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    fail(mount, fmt::format("{} is true or false, not {}", key, slipway::quoted(value)));
}

uint32_t parse_octal(const std::string& mount, const std::string& value) {
    if (value.empty() || value.size() > 4 ||
        value.find_first_not_of("01234567") != std::string::npos)
        fail(mount, fmt::format("{} is no octal mode", slipway::quoted(value)));
    return static_cast<uint32_t>(std::stoul(value, nullptr, 8));
}

/// The fields of one comma-separated line; a field may stand in double quotes.
std::vector<std::string> fields_of(const std::string& text) {
    std::vector<std::string> fields(1);
    bool inside = false;
    for (const char c : text) {
        if (c == '"')
            inside = !inside;
        else if (c == ',' && !inside)
            fields.emplace_back();
        else
            fields.back() += c;
    }
    return fields;
}

struct Fields {
    std::string type = "bind";
    std::string sharing;
    bool read_only_given = false;
};

void take_field(const std::string& text, const std::string& field, Fields& fields,
                MountRequest& request,
                const std::function<std::string(const std::string&)>& expand) {
    const size_t equals = field.find('=');
    const std::string key = to_lower(field.substr(0, equals));
    std::string value = equals == std::string::npos ? "" : field.substr(equals + 1);
    const bool bare = equals == std::string::npos;
    MountAction& action = request.action;
    if (key == "from") {
        if (expand(value) != value) fail(text, "from= does not take variables");
        request.from = value;
        return;
    }
    value = expand(value);
    if (key == "type")
        fields.type = to_lower(value);
    else if (key == "target" || key == "dst" || key == "destination")
        action.target = value;
    else if (key == "source" || key == "src")
        action.source = value;
    else if (key == "id")
        action.cache_id = value;
    else if (key == "sharing")
        fields.sharing = to_lower(value);
    else if (key == "mode")
        action.mode = parse_octal(text, value);
    else if (key == "readonly" || key == "ro") {
        action.read_only = bare || parse_bool(text, key, value);
        fields.read_only_given = true;
    } else if (key == "readwrite" || key == "rw") {
        action.read_only = !(bare || parse_bool(text, key, value));
        fields.read_only_given = true;
    } else if (key == "size" && fields.type == "tmpfs") {
        return;  // the directory lies on the store's disk, which has room or has not
    } else if (key == "uid" || key == "gid") {
        if (value != "0")
            throw Error(ErrorKind::unsupported,
                        fmt::format("--mount={}: {} other than 0 is not supported", text, key))
                .hint("leave it out: RUN is root and may write there");
    } else if (key != "required" && key != "env") {
        fail(text, fmt::format("unknown option {}", slipway::quoted(key)));
    }
}

}  // namespace

MountRequest parse_mount(const std::string& text, const std::string& working_directory,
                         const std::function<std::string(const std::string&)>& expand) {
    MountRequest request;
    Fields fields;
    for (const std::string& field : fields_of(text))
        take_field(text, field, fields, request, expand);
    MountAction& action = request.action;
    if (fields.type == "secret" || fields.type == "ssh")
        throw Error(
            ErrorKind::unsupported,
            fmt::format("--mount={}: mounts of type {} are not supported", text, fields.type))
            .hint(
                "bind a file of the context instead (--mount=type=bind); it does not get into "
                "the image");
    if (fields.type == "bind")
        action.type = MountAction::Type::bind;
    else if (fields.type == "cache")
        action.type = MountAction::Type::cache;
    else if (fields.type == "tmpfs")
        action.type = MountAction::Type::tmpfs;
    else
        fail(text, fmt::format("unknown type {}", slipway::quoted(fields.type)));

    if (action.target.empty()) fail(text, "a target is missing: target=/path");
    if (!starts_with(action.target, "/")) action.target = working_directory + "/" + action.target;
    action.target = lexically_normal(action.target);
    if (action.target == "/") fail(text, "the target / is invalid");

    if (action.type != MountAction::Type::bind) {
        if (!fields.read_only_given) action.read_only = false;
        if (!request.from.empty() || !action.source.empty())
            throw Error(ErrorKind::unsupported,
                        fmt::format("--mount={}: from= and source= of a {} are not supported", text,
                                    fields.type));
    } else if (!action.read_only) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("--mount={}: a bind that can be written is not supported", text))
            .hint("copy what must change to another place first, within the RUN");
    }
    if (!fields.sharing.empty() && fields.sharing != "shared" && fields.sharing != "private" &&
        fields.sharing != "locked")
        fail(text, "sharing is shared, private or locked");
    action.exclusive = fields.sharing == "locked" || fields.sharing == "private";
    if (action.type == MountAction::Type::cache && action.cache_id.empty())
        action.cache_id = action.target;
    return request;
}

}  // namespace slipway::builder
