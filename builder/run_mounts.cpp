// The mounts of one RUN.
// Must not: mount anything (the runtime does), or write into the context.
#include "run_mounts.hpp"

#include <fmt/format.h>

#include <chrono>

#include "copy_items.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::builder {

namespace {

using image::EntryType;

/// Copy a part of a tree into a directory of the host: regular files, directories and links.
void materialize(const FileTree& tree, const std::string& path, const image::Entry& entry,
                 const std::string& place) {
    if (entry.type == EntryType::symlink) {
        sys::symlinkat(entry.link_target, AT_FDCWD, place);
    } else if (entry.type == EntryType::directory) {
        sys::mkdirat(AT_FDCWD, place, 0700);
        for (const std::string& name : tree.names(path)) {
            const std::string below = member_join(path, name);
            if (const auto child = tree.find(below))
                materialize(tree, below, *child, join_path(place, name));
        }
        sys::fchmodat(AT_FDCWD, place, entry.mode);
    } else if (entry.type == EntryType::file || entry.type == EntryType::hardlink) {
        const UniqueFd from = tree.open(path);
        const UniqueFd to = sys::open(place, O_WRONLY | O_CREAT | O_EXCL, 0600);
        const auto size = static_cast<uint64_t>(sys::fstat(from.get(), path).st_size);
        copy_bytes(from.get(), 0, to.get(), 0, size, path);
        sys::fchmod(to.get(), entry.mode, place);
        sys::utimensat_nofollow(AT_FDCWD, place, entry.mtime, 0);
    }
}

}  // namespace

RunMounts::RunMounts(const image::Store& store, const std::string& scratch, const RunAction& action,
                     const MountSources& sources)
    : store_(store), scratch_(scratch) {
    for (const MountAction& mount : action.mounts) {
        if (mount.type == MountAction::Type::cache) add_cache(mount);
        if (mount.type == MountAction::Type::tmpfs) add_scratch(mount);
        if (mount.type == MountAction::Type::bind) add_bind(mount, sources);
    }
    for (const InlineFile& script : action.scripts) add_script(script);
}

std::string RunMounts::new_place() {
    return join_path(scratch_, fmt::format("mount{}", places_++));
}

void RunMounts::add_cache(const MountAction& mount) {
    const std::string directory = store_.subdirectory("cache/mounts");
    const std::string place = join_path(directory, sha256(mount.cache_id).hex().substr(0, 32));
    if (sys::mkdirat_if_absent(AT_FDCWD, place, 0755)) sys::fchmodat(AT_FDCWD, place, mount.mode);
    if (mount.exclusive)
        locks_.emplace_back(place + ".lock", FileLock::Mode::exclusive, std::chrono::hours(1));
    binds_.push_back({place, mount.target, mount.read_only});
}

void RunMounts::add_scratch(const MountAction& mount) {
    const std::string place = new_place();
    sys::mkdirat(AT_FDCWD, place, 0755);
    sys::fchmodat(AT_FDCWD, place, mount.mode == 0755 ? 01777 : mount.mode);
    binds_.push_back({place, mount.target, mount.read_only});
}

void RunMounts::add_bind(const MountAction& mount, const MountSources& sources) {
    const FileTree& tree = mount.from_step
                               ? static_cast<const FileTree&>(sources.step_tree(*mount.from_step))
                               : static_cast<const FileTree&>(*sources.context);
    const std::string path = resolve_links([&tree](const std::string& p) { return tree.find(p); },
                                           lexically_normal("/" + mount.source).substr(1), true);
    const auto entry = tree.find(path);
    if (!entry)
        throw Error(ErrorKind::not_found,
                    fmt::format("{} is not in the {}", slipway::quoted(mount.source),
                                mount.from_step ? "image it is bound from" : "build context"))
            .note(fmt::format("requested by: --mount, target {}", mount.target));
    if (!mount.from_step && !sources.context->ignores_anything()) {
        binds_.push_back({join_path(sources.context->directory(), path), mount.target, true});
        return;
    }
    // What .dockerignore leaves out, and what several layers hold together, is no directory of the
    // host: it has to be made.
    const std::string place = new_place();
    materialize(tree, path, *entry, place);
    binds_.push_back({place, mount.target, true});
}

void RunMounts::add_script(const InlineFile& script) {
    const std::string place = new_place();
    write_file_atomic(place, script.content, 0755);
    sys::fchmodat(AT_FDCWD, place, 0755);
    binds_.push_back({place, "/dev/pipes/" + script.name, true});
}

}  // namespace slipway::builder
