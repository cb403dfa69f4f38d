// Opens files of ours whose mode shuts even us out.
// Must not: change a file for longer than it takes to open it.
#include "slipway/base/own_file.hpp"

#include <unistd.h>

#include <cerrno>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {

namespace {

constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;

/// Gives the owner the right to read a file, and takes it back.
class LentPermission {
 public:
    LentPermission(const UniqueFd& file, mode_t mode)
        : path_("/proc/self/fd/" + std::to_string(file.get())), mode_(mode) {
        sys::fchmodat(AT_FDCWD, path_, mode_ | S_IRUSR);
    }
    ~LentPermission() { ::chmod(path_.c_str(), mode_); }
    LentPermission(const LentPermission&) = delete;
    LentPermission& operator=(const LentPermission&) = delete;
    UniqueFd open() const { return sys::open(path_, O_RDONLY | O_NONBLOCK); }

 private:
    std::string path_;
    mode_t mode_;
};

}  // namespace

UniqueFd open_own_file(int dir, const std::string& path) {
    try {
        return sys::openat(dir, path, kFlags);
    } catch (const SysError& error) {
        if (error.errno_value() != EACCES) throw;
        const auto file = sys::openat_if_exists(dir, path, O_PATH | O_NOFOLLOW);
        if (!file) throw;
        const struct stat status = sys::fstat(file->get(), path);
        const bool shut = (status.st_mode & S_IRUSR) == 0;
        if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || !shut) throw;
        return LentPermission(*file, status.st_mode & 07777).open();
    }
}

}  // namespace slipway
