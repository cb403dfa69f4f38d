// Holds files of the store against deletion, by locks on the files themselves.
// Must not: wait for whoever holds a file; deletion can do without it.
#include "kept_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

/// Deletion holds a file for two system calls.
constexpr auto kPatience = std::chrono::seconds(10);

bool is_still(const std::string& path, const UniqueFd& fd) {
    const auto there = sys::stat_if_exists(AT_FDCWD, path);
    const struct stat open = sys::fstat(fd.get(), path);
    return there && there->st_dev == open.st_dev && there->st_ino == open.st_ino;
}

/// What the store's limit deletes was used least recently. The file's other time is its identity.
/// Not in a store that is read-only here.
void count_as_used(const UniqueFd& fd) {
    const timespec used[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    (void)!::futimens(fd.get(), used);
}

}  // namespace

std::optional<UniqueFd> hold_kept_file(const std::string& path) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (auto fd = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY)) {
        const bool locked = sys::try_flock(fd->get(), LOCK_SH);
        const bool no_locks = !locked && errno != EWOULDBLOCK;
        if (no_locks || (locked && is_still(path, *fd))) {
            count_as_used(*fd);
            return fd;
        }
        if (std::chrono::steady_clock::now() >= deadline) {
            // Deleting takes a moment; whoever may read the store can lock a file for longer.
            log::verbose("another process keeps {} locked; going on without a lock", path);
            return fd;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
}

std::optional<UniqueFd> claim_kept_file(const std::string& path) {
    // Over NFS an exclusive lock needs a file that is open for writing.
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd || !sys::try_flock(fd.get(), LOCK_EX)) return std::nullopt;
    return fd;
}

}  // namespace slipway::image
