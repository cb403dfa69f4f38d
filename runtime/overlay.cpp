// Mounts overlayfs for an ordinary user.
// Must not: choose the layers or look into them.
#include "overlay.hpp"

#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>

#include "overlay_mount.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

Error overlay_refusal(int errno_value, const OverlayLayers& layers) {
    SysError cause(errno_value,
                   fmt::format("cannot mount the layers below {}", slipway::quoted(layers.upper)),
                   "mount");
    Error error(ErrorKind::host_forbids, cause.message());
    if (errno_value == ENODEV)
        return error.note("this kernel has no overlay file system")
            .hint("ask the administrator for: modprobe overlay");
    if (errno_value == EPERM)
        return error.note("kernels before 5.11 do not allow overlay mounts to ordinary users")
            .hint("build on a machine with a newer kernel; the image runs on old ones");
    if (errno_value == EINVAL)
        return error
            .note(
                "the file system that holds the layers cannot be the upper one of an overlay; "
                "NFS, Lustre and other overlays cannot")
            .hint("choose a store on a local disk with --storage DIR");
    if (errno_value == ENOSPC)  // overlayfs's way to say that a work directory is unusable
        return error.note("the disk or quota is full, or too many mounts exist");
    return error;
}

/// 500 layers need more descriptors than the usual soft limit leaves.
void allow_descriptors(size_t count) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + 64) return;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, count + 64);
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int try_overlay(const OverlayFds& layers, unsigned long flags, const std::string& more) {
    // The options of mount(2) end at one page, and ":" and "," need escapes there. Both worries
    // vanish when every directory goes by its descriptor's number, relative to /proc/self/fd.
    std::string options = "userxattr,lowerdir=";
    for (auto it = layers.lowers.rbegin(); it != layers.lowers.rend(); ++it) {
        if (it != layers.lowers.rbegin()) options += ':';
        options += std::to_string(it->get());
    }
    options +=
        fmt::format(",upperdir={},workdir={}{}", layers.upper.get(), layers.work.get(), more);
    const std::string place = std::to_string(layers.target.get());
    const UniqueFd before = sys::open(".", O_PATH | O_DIRECTORY);
    sys::chdir("/proc/self/fd");
    const int error =
        ::mount("overlay", place.c_str(), "overlay", flags, options.c_str()) == 0 ? 0 : errno;
    sys::fchdir(before.get(), ".");
    return error;
}

void mount_overlay(const OverlayLayers& layers, const std::string& target) {
    allow_descriptors(layers.lowers.size());
    const auto open = [](const std::string& path) { return sys::open(path, O_PATH | O_DIRECTORY); };
    OverlayFds fds;
    for (const auto& lower : layers.lowers) fds.lowers.push_back(open(lower));
    fds.upper = open(layers.upper);
    fds.work = open(layers.work);
    fds.target = open(target);
    int error = try_overlay(fds, 0, ",volatile");
    if (error == EINVAL) error = try_overlay(fds, 0, "");  // before 5.10
    if (error != 0) throw overlay_refusal(error, layers);
}

void clear_overlay_work(const std::string& work) { remove_tree(work + "/work"); }

}  // namespace slipway::runtime
