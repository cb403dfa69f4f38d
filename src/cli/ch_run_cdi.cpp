// ch-run --cdi: what specifications of the Container Device Interface add to a container whose /dev
// is the host's. Must not: run a specification's hooks; what the known ones do is done here, or not
// needed. Source: ch-run(1) of Charliecloud 0.45, "Using host resources with Container Device
// Interface".
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "ch_run.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"

namespace slipway::cli {
namespace {

struct Mount {
    std::string source, destination;
    std::string options;  ///< those that a bind of ours has: "ro,nosuid"
};

/// A specification, as far as it counts: devices are in /dev already.
struct Specification {
    std::string path, kind;
    std::vector<std::string> env;
    std::vector<Mount> mounts;
};

Error damaged(const std::string& path, const std::string& what) {
    return Error(ErrorKind::usage,
                 fmt::format("the CDI specification {} {}", slipway::quoted(path), what))
        .note("requested by: --cdi")
        .hint("have it made anew by its vendor's tool, or name another with --cdi=FILE.json");
}

/// The hooks of NVIDIA's tools make links and the loader's cache, which ldconfig does, or change
/// devices, which are the host's.
bool is_known_hook(const std::vector<std::string>& args) {
    return !args.empty() && (base_name(args[0]).starts_with("nvidia-ctk") ||
                             base_name(args[0]).starts_with("nvidia-cdi-hook"));
}

Json member(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found == object.end() ? Json() : *found;
}

Specification read_specification(const std::string& path) {
    const std::string subject = "the CDI specification " + slipway::quoted(path);
    const Json json = parse_json(read_file(path), subject, ErrorKind::usage);
    Specification specification{
        path, json_string(json, "kind", subject, "", ErrorKind::usage), {}, {}};
    if (specification.kind.empty()) throw damaged(path, "names no kind");
    const Json edits = member(json, "containerEdits");
    if (edits.is_null()) return specification;
    specification.env = json_strings(edits, "env", subject, ErrorKind::usage);
    for (const std::string& entry : specification.env)
        if (entry.find('=') == entry.npos || entry.starts_with('='))
            throw damaged(
                path, fmt::format("has {} where VAR=VALUE is expected", slipway::quoted(entry)));
    for (const Json& mount : member(edits, "mounts")) {
        Mount found{json_string(mount, "hostPath", subject, "", ErrorKind::usage),
                    json_string(mount, "containerPath", subject, "", ErrorKind::usage), ""};
        const auto options = json_strings(mount, "options", subject, ErrorKind::usage);
        for (const char* known : {"ro", "nosuid", "nodev", "noexec"})
            if (std::ranges::find(options, known) != options.end())
                found.options += (found.options.empty() ? "" : ",") + std::string(known);
        if (!found.source.starts_with('/') || !found.destination.starts_with('/') ||
            (found.source + found.destination).find(':') != std::string::npos)
            throw damaged(
                path,
                fmt::format("mounts {} on {}: paths must be absolute, without \":\"",
                            slipway::quoted(found.source), slipway::quoted(found.destination)));
        if (std::ranges::find(options, "bind") != options.end() ||
            std::ranges::find(options, "rbind") != options.end())
            specification.mounts.push_back(found);
        else
            log::warning("the CDI specification {}: the mount on {} is no bind and left out",
                         slipway::quoted(path), slipway::quoted(found.destination));
    }
    for (const Json& hook : member(edits, "hooks")) {
        const auto args = json_strings(hook, "args", subject, ErrorKind::usage);
        if (!is_known_hook(args))
            log::warning("the CDI specification {}: the hook {} is not run", slipway::quoted(path),
                         slipway::quoted(json_string(hook, "path", subject, "", ErrorKind::usage)));
    }
    return specification;
}

std::vector<Specification> read_directories(const ChRequest& request) {
    const char* named = std::getenv("CH_RUN_CDI_DIRS");
    const std::string list =
        request.cdi_dirs.value_or(named != nullptr ? named : "/etc/cdi:/var/run/cdi");
    std::vector<Specification> specifications;
    bool any = false;
    for (const std::string& directory : split(list, ':')) {
        const auto opened = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
        if (!opened) continue;
        any = true;
        for (const std::string& name : sys::list_directory(opened->get(), directory))
            if (name.ends_with(".json"))
                specifications.push_back(read_specification(join_path(directory, name)));
    }
    if (specifications.empty())
        throw Error(ErrorKind::not_found, any ? "there is no CDI specification (*.json)"
                                              : "there is no directory of CDI specifications")
            .note("looked in: " + list)
            .note("requested by: --cdi")
            .hint(
                "name the directories with --cdi-dirs or $CH_RUN_CDI_DIRS, or a file with "
                "--cdi=FILE.json");
    return specifications;
}

/// A resource's kind, "vendor.com/class", without the name that may follow. Throws: Error(usage).
std::string kind_of(const std::string& named) {
    const size_t equals = named.find('=');
    const std::string kind = named.substr(0, equals);
    if (std::ranges::count(kind, '/') != 1 ||
        (equals != named.npos && named.substr(equals) != "=all"))
        throw Error(ErrorKind::usage,
                    fmt::format("{} is no kind of CDI resource", slipway::quoted(named)))
            .note("requested by: --cdi")
            .hint("a kind is VENDOR/CLASS, as nvidia.com/gpu; single devices cannot be chosen");
    return kind;
}

void refuse_two_of_a_kind(const std::vector<Specification>& specifications) {
    for (size_t i = 0; i < specifications.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            if (specifications[i].kind == specifications[j].kind &&
                specifications[i].path != specifications[j].path)
                throw Error(ErrorKind::conflict,
                            fmt::format("two CDI specifications are of the kind {}",
                                        slipway::quoted(specifications[i].kind)))
                    .note(fmt::format("{} and {}", slipway::quoted(specifications[j].path),
                                      slipway::quoted(specifications[i].path)))
                    .hint("choose one: --cdi=FILE.json");
}

/// What one --cdi chooses; `named` as ChEnvOption has it.
std::vector<Specification> chosen(const ChRequest& request,
                                  const std::optional<std::string>& named) {
    if (named && named->ends_with(".json")) return {read_specification(*named)};
    const std::string kind = named ? kind_of(*named) : "";
    auto specifications = read_directories(request);
    refuse_two_of_a_kind(specifications);
    if (!kind.empty())
        std::erase_if(specifications, [&](const auto& each) { return each.kind != kind; });
    if (specifications.empty())
        throw Error(ErrorKind::not_found,
                    fmt::format("no CDI specification is of the kind {}", slipway::quoted(kind)))
            .note("requested by: --cdi")
            .hint("give --cdi without a kind for all that there are");
    return specifications;
}

bool is_library(const std::string& path) {
    const std::string_view name = base_name(path);
    return name.ends_with(".so") || name.find(".so.") != name.npos;
}

}  // namespace

void take_cdi(ChRequest& request) {
    std::set<std::string> taken;
    std::set<std::string> directories;
    std::vector<ChEnvOption> changes;
    for (ChEnvOption& option : request.env) {
        if (option.option != ChOption::cdi) {
            changes.push_back(std::move(option));
            continue;
        }
        for (const Specification& each : chosen(request, option.value)) {
            const std::string origin = "--cdi, " + each.path;
            for (const std::string& entry : each.env)
                changes.push_back({ChOption::set_env, entry, origin});
            if (!taken.insert(each.path).second) continue;
            for (const Mount& mount : each.mounts) {
                request.run.binds.push_back({mount.source + ":" + mount.destination +
                                                 (mount.options.empty() ? "" : ":" + mount.options),
                                             origin});
                if (is_library(mount.destination))
                    directories.insert(std::string(parent_path(mount.destination)));
            }
        }
    }
    request.env = std::move(changes);
    request.run.library_directories.assign(directories.begin(), directories.end());
}

}  // namespace slipway::cli
