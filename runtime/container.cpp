// Applies the mounts of a run plan, in order, through descriptors.
// Must not: decide anything that the plan does not say.
#include "container.hpp"

#include <fmt/core.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "accounts.hpp"
#include "keeping.hpp"
#include "mount_tree.hpp"
#include "overlay.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"
#include "slipway/image/squashfs.hpp"
#include "tidy.hpp"

namespace slipway::runtime {

namespace {

using Kind = MountStep::Kind;
using If = MountStep::IfMissing;

/// What is read of an image's passwd or group: a site's whole directory fits.
constexpr size_t kMaxAccountsBytes = 1 << 20;

/// A step whose source has been taken, before anything of ours covers the host's tree.
struct Prepared {
    const MountStep* step;
    UniqueFd tree;
    MountTree::Type type = MountTree::Type::directory;
};

Error failed(const MountStep& step, const Error& cause) {
    const std::string what =
        step.kind == Kind::bind
            ? fmt::format("cannot bind {} on {}", slipway::quoted(step.source),
                          slipway::quoted(step.destination))
            : fmt::format("cannot {} {}", step.kind == Kind::directory ? "make" : "mount",
                          slipway::quoted(step.destination));
    Error error(cause.kind(), fmt::format("{}: {}", what, cause.message()));
    for (const auto& note : cause.notes()) error.note(note);
    if (!cause.hint().empty()) error.hint(cause.hint());
    return std::move(error).note("requested by: " + step.origin);
}

/// What is made for a container has the modes that we give it, whatever the caller's umask is; the
/// command gets the caller's back.
class OwnUmask {
 public:
    OwnUmask() : before_(::umask(022)) {}
    ~OwnUmask() { ::umask(before_); }
    OwnUmask(const OwnUmask&) = delete;
    OwnUmask& operator=(const OwnUmask&) = delete;

 private:
    mode_t before_;
};

UniqueFd clone_source(const MountStep& step) {
    if (step.make_source) sys::make_directories(step.source);
    try {
        return clone_tree(step.source, step.recursive);
    } catch (SysError& error) {
        // do_loopback(): what is mounted below belongs to the host's mount namespace.
        if (step.recursive || error.errno_value() != EINVAL) throw;
        throw error.note("other file systems are mounted below, and cannot be left out")
            .hint("take norec away");
    }
}

UniqueFd take_source(const MountStep& step) {
    UniqueFd tree = clone_source(step);
    // The owner of a set-user-ID file is not mapped: it could only ever confuse.
    uint64_t attributes = MOUNT_ATTR_NOSUID;
    if (step.kind == Kind::image_directory) attributes |= MOUNT_ATTR_NODEV;
    if (step.source == "/") attributes = 0;
    if (step.read_only) attributes |= MOUNT_ATTR_RDONLY;
    if (step.no_exec) attributes |= MOUNT_ATTR_NOEXEC;
    if (step.no_devices) attributes |= MOUNT_ATTR_NODEV;
    const bool asked = step.read_only || step.no_exec || step.no_suid || step.no_devices;
    if (attributes != 0 && (asked || step.kind == Kind::image_directory))
        sys::mount_setattr_recursive(tree.get(), attributes, 0, step.source);
    return tree;
}

std::vector<Prepared> take_sources(const RunPlan& plan) {
    std::vector<Prepared> prepared;
    for (const auto& step : plan.mounts) {
        Prepared one{&step, {}, MountTree::Type::directory};
        if (step.kind == Kind::file) one.type = MountTree::Type::file;
        if (step.kind == Kind::bind || step.kind == Kind::image_directory) {
            try {
                one.tree = take_source(step);
                if (!S_ISDIR(sys::fstat(one.tree.get(), step.source).st_mode))
                    one.type = MountTree::Type::file;
            } catch (const Error& error) {
                throw failed(step, error);
            }
        }
        prepared.push_back(std::move(one));
    }
    return prepared;
}

/// A tmpfs of ours that holds the mount point of the image and the generated files. It is attached
/// in the host's tree, in a place that nothing needs any more, and seen by descriptor only: all of
/// that tree will be out of reach.
UniqueFd attach_scratch() {
    std::string place = "/sys";
    for (const char* other : {"/mnt", "/usr"})  // hosts that are containers themselves
        if (!sys::stat_if_exists(AT_FDCWD, place)) place = other;
    sys::mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=755");
    UniqueFd scratch = sys::open(place, O_PATH | O_DIRECTORY);
    sys::mkdirat(scratch.get(), "root", 0755);
    return scratch;
}

/// Mount the squashfs file of a step and let it be served: whoever looks inside waits for that.
void attach_squashfs(const RunPlan& plan, size_t number, const UniqueFd& place,
                     FuseServer& server) {
    const MountStep& step = plan.mounts[number];
    unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (step.no_exec) flags |= MS_NOEXEC;
    sys::mount(
        step.source, fd_path(place.get()), "fuse.slipway", flags,
        image::fuse_mount_options(fuse_device(server, number), plan.uid_inside, plan.gid_inside));
    release_device(server, number);
}

/// Mount the image on "root" of the scratch directory; with an overlay on "lower", and the overlay
/// on "root".
void attach_image(const Prepared& image, const UniqueFd& scratch, const RunPlan& plan,
                  FuseServer* server) {
    const MountStep* overlay =
        plan.mounts.size() > 1 && plan.mounts[1].kind == Kind::overlay ? &plan.mounts[1] : nullptr;
    if (overlay != nullptr) sys::mkdirat(scratch.get(), "lower", 0755);
    const UniqueFd place =
        sys::openat(scratch.get(), overlay != nullptr ? "lower" : "root", O_PATH);
    if (image.step->kind == Kind::image_directory)
        sys::move_mount(image.tree.get(), place.get(), image.step->source);
    else
        attach_squashfs(plan, 0, place, *server);
    if (overlay == nullptr) return;
    try {
        mount_run_overlay(*overlay, scratch);
    } catch (Error& error) {
        error.note("requested by: " + overlay->origin);
        throw;
    }
}

/// The image's own text at a mount point, cut to whole lines within the limit. What is no regular
/// file, or cannot be read, counts as empty: a container starts all the same.
std::string read_image_file(const Root& root, const UniqueFd& target, const MountStep& step) {
    const struct stat status = sys::fstat(target.get(), step.destination);
    if (!S_ISREG(status.st_mode) || status.st_size == 0) return {};
    try {
        const UniqueFd file = root.open(step.destination, O_RDONLY | O_NONBLOCK);
        std::string text(std::min<size_t>(static_cast<size_t>(status.st_size), kMaxAccountsBytes),
                         '\0');
        size_t size = 0;
        while (size < text.size()) {
            const size_t got =
                sys::read(file.get(), text.data() + size, text.size() - size, step.destination);
            if (got == 0) break;
            size += got;
        }
        text.resize(size);
        if (size == kMaxAccountsBytes) text.resize(text.rfind('\n') + 1);
        return text;
    } catch (const SysError& error) {
        log::verbose("cannot use the image's {}: {}", step.destination, error.message());
        return {};
    }
}

std::string merged_accounts(const Root& root, const UniqueFd& target, const MountStep& step) {
    std::string own = step.content;
    if (step.destination == "/etc/passwd")
        own = with_present_shells(
            own, [&root](const std::string& shell) { return root.stat(shell).has_value(); });
    return merge_accounts(read_image_file(root, target, step), own, step.fallback);
}

UniqueFd make_file(const Root& root, const UniqueFd& scratch, const UniqueFd& target,
                   const MountStep& step, size_t number) {
    const std::string text = step.merge ? merged_accounts(root, target, step) : step.content;
    const std::string name = fmt::format("file-{}", number);
    const UniqueFd file = sys::openat(scratch.get(), name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    sys::write_all(file.get(), text.data(), text.size(), step.destination);
    UniqueFd tree = sys::open_tree(scratch.get(), name, OPEN_TREE_CLONE);
    if (step.read_only)
        sys::mount_setattr_recursive(tree.get(), MOUNT_ATTR_RDONLY, 0, step.destination);
    return tree;
}

UniqueFd make_tmpfs(const MountStep& step) {
    std::vector<std::pair<std::string, std::string>> options;
    for (const auto& option : split(step.options, ',')) {
        const size_t equals = option.find('=');
        if (equals != std::string::npos)
            options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
    }
    return sys::make_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/// Where a step goes; an empty descriptor if the plan says to skip it.
UniqueFd find_place(MountTree& root, const MountStep& step, MountTree::Type type) {
    UniqueFd target = step.if_missing == If::create ? root.make(step.destination, type)
                                                    : root.find(step.destination);
    if (!target && step.if_missing != If::skip)
        throw Error(ErrorKind::not_found,
                    fmt::format("{} is not in the image", slipway::quoted(step.destination)));
    return target;
}

/// A container under construction.
struct Assembly {
    const RunPlan& plan;
    FuseServer* server;
    const UniqueFd& scratch;
    MountTree& root;
    Keeping* keeping;  ///< null when nothing made here outlives the container
};

void apply_step(Assembly& assembly, Prepared& prepared, size_t number) {
    const MountStep& step = *prepared.step;
    MountTree& root = assembly.root;
    if (assembly.keeping != nullptr) assembly.keeping->before(step.destination);
    const UniqueFd target = find_place(root, step, prepared.type);
    if (!target || step.kind == Kind::directory) return;
    if (assembly.keeping != nullptr && prepared.type == MountTree::Type::directory)
        assembly.keeping->mark(target);
    if (step.kind == Kind::data_squashfs) {
        attach_squashfs(assembly.plan, number, target, *assembly.server);
        root.note_mount(step.destination, false);
        return;
    }
    if (step.kind == Kind::file)
        prepared.tree = make_file(root.root(), assembly.scratch, target, step, number);
    if (step.kind == Kind::tmpfs) prepared.tree = make_tmpfs(step);
    if (!prepared.tree)
        throw Error(ErrorKind::internal, "a mount of this kind is not applied to runs");
    root.attach(prepared.tree, target, step.destination);
    root.note_mount(step.destination, step.kind == Kind::bind && !step.read_only);
}

}  // namespace

void assemble_container(const RunPlan& plan, FuseServer* server) {
    const OwnUmask umask;
    auto prepared = take_sources(plan);
    const UniqueFd scratch = attach_scratch();
    try {
        attach_image(prepared.front(), scratch, plan, server);
    } catch (const Error& error) {
        if (error.kind() == ErrorKind::unsupported || error.kind() == ErrorKind::host_forbids)
            throw;
        throw failed(*prepared.front().step, error);
    }
    MountTree root(sys::openat(scratch.get(), ".", O_PATH | O_DIRECTORY), "root");
    root.allow_overlays();
    if (plan.mounts.front().source == "/") root.note_mount("/", true);
    std::optional<Keeping> keeping;
    if (server != nullptr && !kept_directory(plan).empty()) keeping.emplace(plan, scratch);
    Assembly assembly{plan, server, scratch, root, keeping ? &*keeping : nullptr};
    for (size_t i = 1; i < prepared.size(); ++i) {
        try {
            if (prepared[i].step->kind == Kind::overlay)
                continue;  // under all others, so mounted with the image
            apply_step(assembly, prepared[i], i);
        } catch (const Error& error) {
            throw failed(*prepared[i].step, error);
        }
    }
    root.seal();
    if (keeping) keeping->hand_over(root.made(), *server);
    root.enter_above();
}

}  // namespace slipway::runtime
