// Turns what was typed of binds, data packs, write modes and staging into types.
// Must not: look at the host, beyond the working directory for relative sources.
#include "bind_spec.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

struct BindOption {
    const char* name;
    void (*apply)(BindSpec&);
};

constexpr BindOption kBindOptions[] = {
    {"ro", [](BindSpec& bind) { bind.read_only = true; }},
    {"rw", [](BindSpec&) {}},
    {"optional", [](BindSpec& bind) { bind.optional = true; }},
    {"create", [](BindSpec& bind) { bind.create = true; }},
    {"rec", [](BindSpec&) {}},
    {"norec", [](BindSpec& bind) { bind.recursive = false; }},
    {"noexec", [](BindSpec& bind) { bind.no_exec = true; }},
    {"nosuid", [](BindSpec& bind) { bind.no_suid = true; }},
    {"nodev", [](BindSpec& bind) { bind.no_devices = true; }},
};

/// A data pack never changes and has neither owners nor devices; what is left to choose:
constexpr const char* kDataOptions[] = {"ro", "optional", "noexec"};

constexpr const char* kBindForm =
    "write SRC[:DST[:OPTIONS]] with absolute DST and options out of ro, rw, optional, create, "
    "norec, noexec, nosuid, nodev, separated by commas";
constexpr const char* kDataForm =
    "write FILE.sqfs:DST[:OPTIONS], or a stored name or docker://REF in place of the file, with "
    "absolute DST and options out of optional, noexec, separated by commas";

struct Form {
    const char* noun;
    const char* text;
};

Error malformed(const Typed& typed, const Form& form, const std::string& reason) {
    return Error(ErrorKind::usage, fmt::format("cannot understand the {} {}: {}", form.noun,
                                               slipway::quoted(typed.text), reason))
        .note("requested by: " + typed.origin)
        .hint(form.text);
}

BindSpec parse(const Typed& typed, const std::vector<std::string>& parts, const Form& form) {
    if (parts.size() > 3) throw malformed(typed, form, "it has more than three parts");
    if (parts[0].empty()) throw malformed(typed, form, "the source is empty");
    BindSpec bind;
    bind.origin = typed.origin;
    bind.source = absolute_path(parts[0]);
    const std::string destination = parts.size() > 1 && !parts[1].empty() ? parts[1] : bind.source;
    if (!destination.starts_with('/'))
        throw malformed(typed, form, "the destination is not absolute");
    bind.destination = lexically_normal(destination);
    if (bind.destination == "/")
        throw malformed(typed, form, "nothing can be mounted over the image's root directory");
    if (parts.size() < 3) return bind;
    for (const auto& name : split(parts[2], ',')) {
        const auto* option = std::find_if(std::begin(kBindOptions), std::end(kBindOptions),
                                          [&](const auto& row) { return name == row.name; });
        if (option == std::end(kBindOptions))
            throw malformed(typed, form,
                            fmt::format("there is no option {}", slipway::quoted(name)));
        option->apply(bind);
    }
    if (bind.create && bind.optional)
        throw malformed(typed, form, "\"create\" and \"optional\" exclude each other");
    return bind;
}

/// A reference holds colons itself: what follows it begins with ":/".
std::vector<std::string> split_data(const std::string& text) {
    constexpr std::string_view kScheme = "docker://";
    const bool registry = text.starts_with(kScheme);
    const size_t colon = text.find(":/", registry ? kScheme.size() : 0);
    if (colon == std::string::npos)
        return registry ? std::vector<std::string>{text} : split(text, ':');
    std::vector<std::string> parts = split(text.substr(colon + 1), ':');
    parts.insert(parts.begin(), text.substr(0, colon));
    return parts;
}

BindSpec parse_data(const Typed& typed) {
    const Form form{"data pack", kDataForm};
    const auto parts = split_data(typed.text);
    if (parts.size() < 2 || parts[1].empty())
        throw malformed(typed, form, "it does not say where to show the file");
    if (parts.size() == 3)
        for (const auto& name : split(parts[2], ','))
            if (std::find(std::begin(kDataOptions), std::end(kDataOptions), name) ==
                std::end(kDataOptions))
                throw malformed(typed, form,
                                fmt::format("there is no option {}", slipway::quoted(name)));
    BindSpec data = parse(typed, parts, form);
    data.read_only = true;
    data.named = parts[0];
    return data;
}

/// "512m", "2g", "25%", "1048576"
bool is_tmpfs_size(const std::string& text) {
    uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || number == 0) return false;
    const std::string_view unit(rest, static_cast<size_t>(end - rest));
    if (unit == "%") return number <= 100;
    return unit.empty() ||
           (unit.size() == 1 && std::string_view("kmgKMG").find(unit[0]) != std::string_view::npos);
}

void take_overlay(const std::string& text, MountSpec& spec) {
    if (spec.write)
        throw Error(ErrorKind::conflict, "the image is either changed or covered by an overlay")
            .note("requested by: --write and --overlay")
            .hint("leave one of them out");
    if (text != "tmpfs" && !text.starts_with("tmpfs=")) {
        if (text.empty())
            throw Error(ErrorKind::usage, "the overlay's directory is empty")
                .note("requested by: --overlay")
                .hint("write tmpfs, tmpfs=SIZE or a directory");
        spec.overlay_directory = absolute_path(text);
        return;
    }
    spec.overlay_tmpfs = text == "tmpfs" ? "" : text.substr(6);
    if (text != "tmpfs" && !is_tmpfs_size(*spec.overlay_tmpfs))
        throw Error(ErrorKind::usage, fmt::format("cannot understand the size {}",
                                                  slipway::quoted(*spec.overlay_tmpfs)))
            .note("requested by: --overlay")
            .hint("write bytes, or a number with k, m, g or % (of the memory) after it");
}

}  // namespace

BindSpec make_bind(const Typed& typed, const std::vector<std::string>& parts) {
    return parse(typed, parts, {"bind", kBindForm});
}

MountSpec make_mount_spec(const RunOptions& options) {
    MountSpec spec;
    for (const auto& typed : options.binds)
        spec.binds.push_back(make_bind(typed, split(typed.text, ':')));
    for (const auto& typed : options.data) spec.data.push_back(parse_data(typed));
    spec.write = options.write;
    if (options.overlay) take_overlay(*options.overlay, spec);
    spec.private_tmp = options.private_tmp;
    spec.home = options.home;
    if (options.stage && options.stage->empty())
        throw Error(ErrorKind::usage, "the directory to stage to is empty")
            .note("requested by: --stage")
            .hint("write --stage, or --stage=DIRECTORY");
    if (options.stage)
        spec.stage = *options.stage == "auto" ? *options.stage : absolute_path(*options.stage);
    return spec;
}

}  // namespace slipway::runtime
