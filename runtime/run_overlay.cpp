// Mounts the overlay of a run: image below, a tmpfs or a kept directory above.
// Must not: choose where changes go, or take anything away from a kept directory.
#include <fmt/core.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "overlay.hpp"
#include "overlay_mount.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "stage_place.hpp"

namespace slipway::runtime {

namespace {

constexpr auto kLockTimeout = std::chrono::seconds(5);
constexpr const char* kProbeAttribute = "user.overlay.slipway";
constexpr const char* kWorks =
    "use --overlay tmpfs, or a directory on a local disk (ext4, xfs, btrfs)";

/// Name the file system that holds an open directory.
std::string place_name(const UniqueFd& directory, const std::string& path) {
    const uint64_t type = sys::file_system_type(directory.get(), path);
    if (type == 0x794c7630) return "an overlay itself";
    if (type == 0x01021994) return "a tmpfs";
    const std::string shared = shared_file_system(type);
    return shared.empty() ? fmt::format("a file system of type {:#x}", type) : shared;
}

Error unfit(const MountStep& step, const UniqueFd& upper, const std::string& reason) {
    return Error(ErrorKind::unsupported,
                 fmt::format("{} cannot hold an overlay: {}", slipway::quoted(step.source), reason))
        .note(fmt::format("it lies on {}", place_name(upper, step.source)))
        .hint(kWorks);
}

Error refusal(const MountStep& step, const OverlayFds& fds, int error) {
    if (error == ENODEV)
        return Error(ErrorKind::host_forbids, "this kernel has no overlay file system")
            .hint(
                "ask the administrator for: modprobe overlay. Until then convert the image to a "
                "directory (slipway convert IMAGE DIRECTORY) and run that with --write");
    if (error == EPERM)
        return Error(ErrorKind::host_forbids,
                     "this kernel allows overlay mounts to the administrator only")
            .note("ordinary users may mount them since Linux 5.11")
            .hint(
                "convert the image to a directory (slipway convert IMAGE DIRECTORY) and run that "
                "with --write, or bind a writable directory with --bind");
    if (error == EINVAL && !step.source.empty())
        return unfit(step, fds.upper, "the kernel does not take it as the upper layer");
    return SysError(error, "cannot mount the overlay", "mount");
}

/// Without extended attributes of its own, the upper layer could not remember a directory that was
/// removed and made again.
void check_attributes(const MountStep& step, const UniqueFd& upper) {
    const std::string path = fmt::format("/proc/self/fd/{}/.", upper.get());
    try {
        sys::setxattr_nofollow(path, kProbeAttribute, "y");
    } catch (const SysError& error) {
        if (error.errno_value() != EOPNOTSUPP && error.errno_value() != EPERM) throw;
        throw unfit(step, upper, "its file system has no extended attributes for users");
    }
    sys::removexattr_nofollow(path, kProbeAttribute);
}

UniqueFd open_directory(const UniqueFd& parent, const std::string& name) {
    sys::mkdirat_if_absent(parent.get(), name, 0755);
    return sys::openat(parent.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

/// A tmpfs on "layers" in the holder: the kernel wants upper layers attached somewhere.
UniqueFd make_memory(const MountStep& step, const UniqueFd& holder) {
    std::vector<std::pair<std::string, std::string>> options{{"mode", "755"}};
    if (const size_t equals = step.options.find('='); equals != std::string::npos)
        options.emplace_back(step.options.substr(0, equals), step.options.substr(equals + 1));
    const UniqueFd memory = sys::make_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    sys::move_mount(memory.get(), open_directory(holder, "layers").get(), "the overlay's memory");
    return sys::openat(holder.get(), "layers", O_PATH | O_DIRECTORY);
}

}  // namespace

void mount_run_overlay(const MountStep& step, const UniqueFd& holder) {
    OverlayFds fds;
    fds.lowers.push_back(sys::openat(holder.get(), "lower", O_PATH | O_DIRECTORY));
    const struct stat image = sys::fstat(fds.lowers[0].get(), "the image");
    if (image.st_uid != ::geteuid())
        throw Error(
            ErrorKind::unsupported,
            "an overlay cannot change the files of a directory that belongs to somebody else")
            .hint(
                "convert it to a squashfs file, whose files are everybody's: slipway convert "
                "DIRECTORY FILE.sqfs");
    const bool kept = !step.source.empty();
    const UniqueFd place =
        kept ? sys::open(step.source, O_PATH | O_DIRECTORY) : make_memory(step, holder);
    fds.upper = open_directory(place, "upper");
    fds.work = open_directory(place, "work");
    if (kept) check_attributes(step, fds.upper);
    fds.target = sys::openat(holder.get(), "root", O_PATH | O_DIRECTORY);
    if (const int error = try_overlay(fds, MS_NOSUID | MS_NODEV, ""); error != 0)
        throw refusal(step, fds, error);
}

void remove_work(const std::string& directory) { remove_tree(join_path(directory, "work/work")); }

UniqueFd lock_overlay(const MountStep& step) {
    sys::make_directories(step.source);
    const std::string path = join_path(step.source, "lock");
    UniqueFd lock = sys::open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    // The one before us may be about to go: its last process has ended.
    const auto deadline = std::chrono::steady_clock::now() + kLockTimeout;
    while (!sys::try_flock(lock.get(), LOCK_EX)) {
        if (std::chrono::steady_clock::now() >= deadline)
            throw Error(ErrorKind::busy, fmt::format("the overlay {} is used by another container",
                                                     slipway::quoted(step.source)))
                .note(fmt::format("held by {}", read_file(path)))
                .note("requested by: " + step.origin)
                .hint(
                    "name another directory, end the other container, or enter it: the same "
                    "image, mounts and --session=NAME in both");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return lock;
}

}  // namespace slipway::runtime
