// Names, makes and sweeps temporary files.
// Must not: remove what a living process owns.
#include "temp_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <exception>
#include <optional>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr time_t kForeignAgeSeconds = 24 * 3600;
constexpr const char* kTreePrefix = ".slipway-";

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

/// Whether a name is one of temporary_name: five words of digits and letters.
bool is_temporary_name(const std::string& name) {
    size_t words = 1;
    for (const char c : name) {
        if (c == '-')
            ++words;
        else if (!std::isxdigit(static_cast<unsigned char>(c)))
            return false;
    }
    return words == 5 && !name.empty();
}

/// Whether a name is that of a blob, which is not temporary however old it is.
bool is_blob_name(const std::string& name) {
    return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Remove the tree that a link in a store's tmp/ leads to, if it has the name that belongs to it.
void remove_staged(int directory, const std::string& link) {
    const std::string tree = sys::readlinkat(directory, link);
    if (base_name(tree) == kTreePrefix + link) remove_tree(tree);
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
            if (!status || is_blob_name(name) || !is_orphan(name, *status)) continue;
            if (S_ISLNK(status->st_mode)) remove_staged(dir->get(), name);
            remove_tree(dir->get(), name);
        }
    } catch (const std::exception&) {
        // A read-only store, or another process sweeping at the same time.
    }
}

void sweep_beside(const std::string& path) noexcept {
    try {
        const std::string directory(parent_path(absolute_path(path)));
        const std::string prefix = std::string(base_name(path)) + ".";
        const UniqueFd dir = sys::open(directory, O_RDONLY | O_DIRECTORY);
        for (const std::string& name : sys::list_directory(dir.get(), directory)) {
            if (!name.starts_with(prefix)) continue;
            const std::string own = name.substr(prefix.size());
            const auto status = sys::stat_if_exists(dir.get(), name, AT_SYMLINK_NOFOLLOW);
            if (status && S_ISREG(status->st_mode) && status->st_uid == ::geteuid() &&
                is_temporary_name(own) && is_orphan(own, *status))
                sys::unlinkat(dir.get(), name);
        }
    } catch (const std::exception&) {
        // As above.
    }
}

TempFile::TempFile(const std::string& directory)
    : path_(join_path(directory, temporary_name())),
      fd_(sys::open(path_, O_RDWR | O_CREAT | O_EXCL, 0600)) {}

TempFile::~TempFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
}

void TempFile::reserve(uint64_t size_bytes) {
    if (size_bytes == 0 ||
        ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_bytes)) == 0 ||
        (errno != ENOSPC && errno != EDQUOT))
        return;  // what is no lack of room shows when the bytes are written
    SysError error(fmt::format("cannot write {}", slipway::quoted(path_)), "fallocate");
    // An attempt that failed may have taken what there was.
    (void)!::ftruncate(fd_.get(), 0);
    add_room_left(error, path_, size_bytes);
    throw error;
}

void add_room_left(Error& error, const std::string& path, uint64_t needed_bytes) {
    static constexpr std::string_view kMark = " are free there";
    if (error.kind() != ErrorKind::no_space) return;
    for (const std::string& note : error.notes())
        if (note.find(kMark) != std::string::npos) return;
    struct statvfs facts {};
    const std::string parent(parent_path(absolute_path(path)));
    if (::statvfs(parent.c_str(), &facts) != 0) return;
    const uint64_t free_bytes = uint64_t{facts.f_bavail} * facts.f_frsize;
    std::string text = fmt::format("{}{}", human_bytes(free_bytes), kMark);
    if (needed_bytes > free_bytes)
        text += fmt::format(", and {} are needed: {} are missing", human_bytes(needed_bytes),
                            human_bytes(needed_bytes - free_bytes));
    error.note(text);
}

void TempFile::commit(const std::string& target, unsigned mode) {
    sys::fchmod(fd_.get(), mode, path_);
    sys::fsync(fd_.get(), path_);
    sys::renameat(AT_FDCWD, path_, AT_FDCWD, target);
    path_.clear();
}

unsigned user_mode(unsigned mode) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return mode & ~mask;
}

NewFile::NewFile(const std::string& path) : path_(path) {
    const std::string parent(parent_path(absolute_path(path)));
    sweep_beside(path);
    fd_.reset(::open(parent.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd_) return;
    // NFS and others have no such files.
    const std::string name = path + "." + temporary_name();
    fd_.reset(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd_) throw SysError(fmt::format("cannot write {}", slipway::quoted(path)), "open");
    temporary_ = name;
}

NewFile::~NewFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::commit(unsigned mode) {
    sys::fchmod(fd_.get(), mode, path_);
    if (temporary_.empty()) {
        const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
        if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0)
            return;
        // A link cannot take the place of an older file; a rename can.
        const std::string name = path_ + "." + temporary_name();
        sys::linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
        temporary_ = name;
    }
    sys::renameat(AT_FDCWD, temporary_, AT_FDCWD, path_);
    temporary_.clear();
}

UniqueFd NewFile::into_unnamed() {
    if (!temporary_.empty()) sys::unlinkat(AT_FDCWD, temporary_);
    temporary_.clear();
    return std::move(fd_);
}

StagedTree::StagedTree(const std::string& target, const std::string& store_temporary)
    : target_(absolute_path(target)) {
    while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
    const std::string name = temporary_name();
    path_ = join_path(parent_path(target_), kTreePrefix + name);
    link_ = join_path(store_temporary, name);
    // First the link: a kill leaves nothing that is not known. A store that others filled may be
    // read-only; then it is up to the destructor.
    if (::symlink(path_.c_str(), link_.c_str()) != 0) link_.clear();
    try {
        sys::mkdirat(AT_FDCWD, path_, 0700);
    } catch (...) {
        if (!link_.empty()) ::unlink(link_.c_str());
        throw;
    }
}

StagedTree::~StagedTree() {
    try {
        if (!path_.empty()) remove_tree(path_);
        if (!link_.empty()) ::unlink(link_.c_str());
    } catch (const std::exception&) {
        // The link stays, and the next process tries again.
    }
}

void StagedTree::commit() {
    sys::renameat(AT_FDCWD, path_, AT_FDCWD, target_);
    path_.clear();
}

}  // namespace slipway::image
