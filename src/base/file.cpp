// Whole files, temporary directories, locks.
// Must not: remove anything by a path that somebody else could redirect.
#include "slipway/base/file.hpp"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {

std::string read_all(int fd, const std::string& subject, uint64_t limit_bytes) {
    std::string text;
    constexpr size_t kBufferBytes = 64 << 10;
    const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);  // touched as needed
    while (const size_t n = sys::read(fd, buffer.get(), kBufferBytes, subject)) {
        if (text.size() + n > limit_bytes)
            throw Error(ErrorKind::io,
                        fmt::format("{} is larger than {} bytes", quoted(subject), limit_bytes));
        text.append(buffer.get(), n);
    }
    return text;
}

std::string read_file(const std::string& path, uint64_t limit_bytes) {
    const UniqueFd fd = sys::open(path, O_RDONLY);
    return read_all(fd.get(), path, limit_bytes);
}

void write_file_atomic(const std::string& path, std::string_view data, unsigned mode) {
    std::string temporary = path + ".XXXXXX";
    UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!fd) throw SysError(fmt::format("cannot write {}", quoted(path)), "mkostemp");
    try {
        sys::write_all(fd.get(), data.data(), data.size(), path);
        sys::fchmod(fd.get(), mode, path);
        sys::fsync(fd.get(), path);
        sys::renameat(AT_FDCWD, temporary, AT_FDCWD, path);
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
}

void copy_bytes(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size_bytes,
                const std::string& subject) {
    while (size_bytes > 0) {
        auto in = static_cast<off64_t>(from_offset);
        auto out = static_cast<off64_t>(to_offset);
        const ssize_t n = ::copy_file_range(from, &in, to, &out, size_bytes, 0);
        if (n <= 0)
            break;  // EXDEV, EINVAL, EOPNOTSUPP, a file that is too short: the loop below finds out
        from_offset += static_cast<uint64_t>(n);
        to_offset += static_cast<uint64_t>(n);
        size_bytes -= static_cast<uint64_t>(n);
    }
    std::vector<char> buffer(size_bytes > 0 ? 1 << 20 : 0);
    while (size_bytes > 0) {
        const size_t want = std::min<uint64_t>(buffer.size(), size_bytes);
        const size_t n = sys::pread(from, buffer.data(), want, from_offset, subject);
        if (n == 0) throw Error(ErrorKind::io, fmt::format("{} ended too early", quoted(subject)));
        sys::pwrite_all(to, buffer.data(), n, to_offset, subject);
        from_offset += n;
        to_offset += n;
        size_bytes -= n;
    }
}

void remove_tree(int dir, const std::string& name) {
    if (::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT) return;
    if (errno != EISDIR && errno != EPERM && errno != EACCES)
        throw SysError(fmt::format("cannot remove {}", quoted(name)), "unlinkat");
    auto opened = [&]() -> std::optional<UniqueFd> {
        const int fd = ::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? std::nullopt : std::optional<UniqueFd>(UniqueFd(fd));
    };
    auto directory = opened();
    if (!directory && errno == EACCES) {
        ::fchmodat(dir, name.c_str(), 0700, 0);
        directory = opened();
    }
    if (!directory) throw SysError(fmt::format("cannot remove {}", quoted(name)), "openat");
    ::fchmod(directory->get(),
             0700);  // a failure shows below, at the first entry that cannot be removed
    for (const auto& child : sys::list_directory(directory->get(), name))
        remove_tree(directory->get(), child);
    sys::unlinkat(dir, name, AT_REMOVEDIR);
}

void remove_tree(const std::string& path) {
    const std::string clean = absolute_path(path);
    const auto parent =
        sys::openat_if_exists(AT_FDCWD, std::string(parent_path(clean)), O_PATH | O_DIRECTORY);
    if (parent) remove_tree(parent->get(), std::string(base_name(clean)));
}

TempDir::TempDir(const std::string& parent, const std::string& prefix)
    : path_(join_path(parent, prefix + "XXXXXX")) {
    if (::mkdtemp(path_.data()) == nullptr) {
        throw SysError(fmt::format("cannot make a temporary directory in {}", quoted(parent)),
                       "mkdtemp");
    }
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
}

TempDir::~TempDir() {
    if (path_.empty()) return;
    try {
        remove_tree(path_);
    } catch (const std::exception&) {
        // A destructor has nobody to tell; the leak checks of the tests find what stays.
    }
}

std::string TempDir::release() { return std::exchange(path_, {}); }

std::string temporary_directory() {
    const char* directory = std::getenv("TMPDIR");
    return directory != nullptr && directory[0] == '/' ? directory : "/tmp";
}

namespace {

/// A reader of a file that is not its own locks what it can open.
UniqueFd open_lock(const std::string& path, FileLock::Mode mode) {
    try {
        return sys::open(path, O_RDWR | O_CREAT, 0600);
    } catch (const Error&) {
        if (mode != FileLock::Mode::shared) throw;
        const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) throw;
        return UniqueFd(fd);
    }
}

/// Leave in the file who has it, for those who wait. Of several that share it, the last shows.
void sign_lock(int fd) {
    char host[256] = "";
    if (::gethostname(host, sizeof host - 1) != 0) return;
    const std::string text =
        fmt::format("process {} ({}) on {}\n", ::getpid(), program_invocation_short_name, host);
    // A file system without room, or a file that is only read: the lock holds all the same.
    if (::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
        (void)!::ftruncate(fd, static_cast<off_t>(text.size()));
}

std::string holder_of(int fd) {
    char text[512];
    const ssize_t n = ::pread(fd, text, sizeof text, 0);
    std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    return holder;
}

[[noreturn]] void no_locks(const std::string& path) {
    SysError error(fmt::format("cannot lock {}", quoted(path)), "flock");
    if (error.errno_value() == ENOLCK || error.errno_value() == ENOSYS ||
        error.errno_value() == EOPNOTSUPP) {
        error.note("the file system that it lies on has no locks, or its lock service is down");
        error.hint(
            "put the store on a file system with locks, for example SLIPWAY_STORE=/var/tmp/$USER");
    }
    throw error;
}

}  // namespace

FileLock::FileLock(const std::string& path, Mode mode, std::chrono::milliseconds timeout)
    : fd_(open_lock(path, mode)) {
    const int operation = (mode == Mode::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    auto pause = std::chrono::milliseconds(1);
    while (::flock(fd_.get(), operation) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) no_locks(path);
        if (std::chrono::steady_clock::now() >= deadline) {
            const std::string holder = holder_of(fd_.get());
            Error error(ErrorKind::busy, fmt::format("{} is locked by {}", quoted(path),
                                                     holder.empty() ? "another process" : holder));
            error.note(fmt::format("waited {} ms", timeout.count()));
            error.hint("wait for it to end, or find it with: fuser -v " + path);
            throw error;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::milliseconds(50));
    }
    sign_lock(fd_.get());
}

}  // namespace slipway
