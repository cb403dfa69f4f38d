// Names, makes and sweeps temporary files.
// Must not: remove what a living process owns.
#include "temp_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <ctime>
#include <exception>
#include <optional>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr time_t kForeignAgeSeconds = 24 * 3600;

/// The start time of a process, or std::nullopt if there is none of that number.
std::optional<std::string> start_time(const std::string& pid) {
    int number = 0;
    std::from_chars(pid.data(), pid.data() + pid.size(), number);
    const auto process = read_process(number);
    return process ? std::optional(process->start_time) : std::nullopt;
}

/// What tells this machine, boot and PID namespace from others.
const std::string& place() {
    static const std::string text = [] {
        std::string boot = read_file("/proc/sys/kernel/random/boot_id").substr(0, 8);
        std::string space = sys::readlinkat(AT_FDCWD, "/proc/self/ns/pid");  // pid:[4026531836]
        std::string number;
        for (char c : space) {
            if (c >= '0' && c <= '9') number += c;
        }
        return boot + "-" + number;
    }();
    return text;
}

bool is_orphan(const std::string& name, const struct stat& status) {
    if (name.starts_with(place() + "-")) {
        size_t pid_at = place().size() + 1;
        size_t start_at = name.find('-', pid_at);
        if (start_at == std::string::npos) return false;
        std::string pid = name.substr(pid_at, start_at - pid_at);
        std::string start = name.substr(start_at + 1, name.find('-', start_at + 1) - start_at - 1);
        return start_time(pid) != start;
    }
    return status.st_mtim.tv_sec + kForeignAgeSeconds < std::time(nullptr);
}

}  // namespace

std::string temporary_name() {
    static std::atomic<unsigned> number{0};
    // Asked anew each time: a forked child is another owner.
    std::string pid = std::to_string(::getpid());
    return fmt::format("{}-{}-{}-{}", place(), pid, start_time(pid).value_or("0"), number++);
}

void sweep_temporary_files(const std::string& directory) noexcept {
    try {
        auto dir = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
        if (!dir) return;
        for (const std::string& name : sys::list_directory(dir->get(), directory)) {
            auto status = sys::stat_if_exists(dir->get(), name, AT_SYMLINK_NOFOLLOW);
            if (status && is_orphan(name, *status)) remove_tree(dir->get(), name);
        }
    } catch (const std::exception&) {
        // A read-only store, or another process sweeping at the same time.
    }
}

TempFile::TempFile(const std::string& directory)
    : path_(join_path(directory, temporary_name())),
      fd_(sys::open(path_, O_RDWR | O_CREAT | O_EXCL, 0600)) {}

TempFile::~TempFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
}

void TempFile::commit(const std::string& target, unsigned mode) {
    sys::fchmod(fd_.get(), mode, path_);
    sys::fsync(fd_.get(), path_);
    sys::renameat(AT_FDCWD, path_, AT_FDCWD, target);
    path_.clear();
}

}  // namespace slipway::image
