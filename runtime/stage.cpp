// Copies a file to a local disk once per node: lock, copy, check, rename.
// Must not: trust what a killed process left, or choose the place.
#include "stage.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kChunkBytes = 4 << 20;
constexpr auto kLockPatience = std::chrono::seconds(2);
/// A network file system that fails over is silent this long.
constexpr auto kStallTimeout = std::chrono::minutes(3);

constexpr const char* kPart = ".part";
constexpr const char* kLock = ".lock";
constexpr const char* kSum = ".sha256";

/// The copy, if it is there, whole and ours.
bool is_staged(const StageStep& step) {
    const auto status = sys::stat_if_exists(AT_FDCWD, step.target, AT_SYMLINK_NOFOLLOW);
    return status && S_ISREG(status->st_mode) && status->st_uid == ::geteuid() &&
           static_cast<uint64_t>(status->st_size) == step.size_bytes;
}

/// The directory lies among other users' files: it must be a directory of ours that nobody else can
/// write to.
void make_own_directory(const std::string& directory) {
    sys::mkdirat_if_absent(AT_FDCWD, directory, 0700);
    const auto status = sys::stat_if_exists(AT_FDCWD, directory, AT_SYMLINK_NOFOLLOW);
    if (status && S_ISDIR(status->st_mode) && status->st_uid == ::geteuid() &&
        (status->st_mode & 022) == 0)
        return;
    throw Error(ErrorKind::permission,
                fmt::format("{} is not a directory of yours alone", slipway::quoted(directory)))
        .hint("remove it, or name another place with --stage=DIR");
}

uint64_t size_of(const std::string& path) {
    const auto status = sys::stat_if_exists(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return status ? static_cast<uint64_t>(status->st_size) : 0;
}

/// Wait while somebody else copies; std::nullopt once the copy is there.
std::optional<FileLock> lock_or_staged(const StageStep& step) {
    const std::string path = step.target + kLock;
    uint64_t seen = 0;
    auto progressed = Clock::now();
    while (true) {
        try {
            FileLock lock(path, FileLock::Mode::exclusive, kLockPatience);
            if (is_staged(step)) return std::nullopt;
            return lock;
        } catch (Error& error) {
            if (error.kind() != ErrorKind::busy) throw;
            if (is_staged(step)) return std::nullopt;
            const uint64_t size = size_of(step.target + kPart);
            if (size != seen) progressed = Clock::now();
            seen = size;
            const auto silent = Clock::now() - progressed;
            if (silent < kStallTimeout) continue;
            throw Error(ErrorKind::busy,
                        fmt::format("the copy of {} does not get on", slipway::quoted(step.source)))
                .note(fmt::format("{} copies it, and wrote nothing for {} s", read_file(path),
                                  std::chrono::duration_cast<std::chrono::seconds>(silent).count()))
                .note("requested by: " + step.origin)
                .hint("end that process, or leave --stage out");
        }
    }
}

/// Two chunks between the thread that reads the network and the one that writes and digests.
class Chunks {
 public:
    struct Chunk {
        std::vector<std::byte> bytes = std::vector<std::byte>(kChunkBytes);
        size_t size = 0;
    };

    /// Wait for an empty chunk to fill; nullptr when the writer has failed.
    Chunk* to_fill() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return filled_ - written_ < chunks_.size() || stopped_; });
        return stopped_ ? nullptr : &chunks_[filled_ % chunks_.size()];
    }
    void fill() {
        const std::lock_guard lock(mutex_);
        ++filled_;
        changed_.notify_all();
    }
    /// Wait for a full chunk to write; nullptr when there will be none any more.
    Chunk* to_write() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return filled_ > written_ || stopped_; });
        return filled_ > written_ ? &chunks_[written_ % chunks_.size()] : nullptr;
    }
    void write() {
        const std::lock_guard lock(mutex_);
        ++written_;
        changed_.notify_all();
    }
    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<Chunk, 2> chunks_;
    size_t filled_ = 0, written_ = 0;
    bool stopped_ = false;
};

/// Copy all of `from`, digesting on the way. Returns the digest.
Digest copy_digested(const UniqueFd& from, const UniqueFd& to, const StageStep& step) {
    Progress progress(fmt::format("staging {} to {}", base_name(step.source),
                                  parent_path(parent_path(step.target))),
                      step.size_bytes, Progress::Unit::bytes);
    Chunks chunks;
    Sha256 digest;
    std::exception_ptr failure;
    std::thread writer([&] {
        try {
            while (Chunks::Chunk* chunk = chunks.to_write()) {
                sys::write_all(to.get(), chunk->bytes.data(), chunk->size, step.target);
                digest.update(chunk->bytes.data(), chunk->size);
                progress.add(chunk->size);
                chunks.write();
            }
        } catch (...) {
            failure = std::current_exception();
            chunks.stop();
        }
    });
    try {
        while (Chunks::Chunk* chunk = chunks.to_fill()) {
            chunk->size = sys::read(from.get(), chunk->bytes.data(), kChunkBytes, step.source);
            if (chunk->size == 0) break;
            chunks.fill();
        }
    } catch (...) {
        chunks.stop();
        writer.join();
        throw;
    }
    chunks.stop();
    writer.join();
    if (failure) std::rethrow_exception(failure);
    progress.finish();
    return digest.finish();
}

void check_unchanged(const UniqueFd& from, const struct stat& before, uint64_t copied,
                     const StageStep& step) {
    const struct stat after = sys::fstat(from.get(), step.source);
    if (copied == step.size_bytes && after.st_size == before.st_size &&
        after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
        after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
        return;
    throw Error(ErrorKind::io,
                fmt::format("{} changed while it was copied", slipway::quoted(step.source)))
        .note("requested by: " + step.origin)
        .hint("start again once it is complete");
}

/// Take away what killed processes left half copied, and copies of other states of this source.
void remove_leftovers(const StageStep& step) {
    const std::string directory(parent_path(step.target));
    const UniqueFd dir = sys::open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    for (const auto& name : sys::list_directory(dir.get(), directory)) {
        std::string copy = name;
        for (const char* suffix : {kPart, kSum})
            if (name.ends_with(suffix)) copy.resize(name.size() - std::strlen(suffix));
        if (copy == name || copy == base_name(step.target)) continue;
        if (name.ends_with(kSum) &&
            read_file(join_path(directory, name)).find("# of " + step.source + "\n") ==
                std::string::npos)
            continue;
        const auto lock = sys::openat_if_exists(dir.get(), copy + kLock, O_RDWR);
        if (lock && !sys::try_flock(lock->get(), LOCK_EX)) continue;
        // The lock file stays: a process may be about to wait for it.
        ::unlinkat(dir.get(), name.c_str(), 0);
        if (name.ends_with(kSum)) ::unlinkat(dir.get(), copy.c_str(), 0);
    }
}

Error no_space(const StageStep& step, const std::string& cause) {
    return Error(ErrorKind::no_space,
                 fmt::format("cannot stage {}: {}", slipway::quoted(step.source), cause))
        .note(fmt::format("{} are needed in {}", human_bytes(step.size_bytes),
                          slipway::quoted(parent_path(step.target))))
        .note("requested by: " + step.origin)
        .hint("free space there, name another disk with --stage=DIR, or leave --stage out");
}

/// All ranks of a node would fill the disk in turn, each to find out for itself.
void check_room(const StageStep& step) {
    struct statvfs room {};
    const std::string directory(parent_path(step.target));
    if (::statvfs(directory.c_str(), &room) != 0) return;
    const uint64_t free_bytes = static_cast<uint64_t>(room.f_bavail) * room.f_frsize;
    if (free_bytes < step.size_bytes)
        throw no_space(step, fmt::format("only {} are free", human_bytes(free_bytes)));
}

void copy_file(const StageStep& step) {
    check_room(step);
    const std::string part = step.target + kPart;
    const UniqueFd from = sys::open(step.source, O_RDONLY);
    const struct stat before = sys::fstat(from.get(), step.source);
    ::posix_fadvise(from.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    const UniqueFd to = sys::open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    try {
        const Digest digest = copy_digested(from, to, step);
        check_unchanged(from, before, static_cast<uint64_t>(sys::fstat(to.get(), part).st_size),
                        step);
        write_file_atomic(step.target + kSum, fmt::format("# of {}\n{}  {}\n", step.source,
                                                          digest.hex(), base_name(step.target)));
        sys::fchmod(to.get(), 0400, part);
        sys::renameat(AT_FDCWD, part, AT_FDCWD, step.target);
    } catch (const Error& error) {
        ::unlink(part.c_str());
        if (error.errno_value() == ENOSPC || error.errno_value() == EDQUOT)
            throw no_space(step, error.message());
        throw;
    }
}

/// Says who copies, for those who wait too long.
void sign_lock(const StageStep& step) {
    const UniqueFd file = sys::open(step.target + kLock, O_WRONLY | O_TRUNC);
    const std::string owner = fmt::format("process {}", ::getpid());
    sys::write_all(file.get(), owner.data(), owner.size(), step.target + kLock);
}

void stage_file(const StageStep& step) {
    make_own_directory(std::string(parent_path(step.target)));  // else a copy there proves nothing
    if (is_staged(step)) return;
    const auto lock = lock_or_staged(step);
    if (!lock) return;
    sign_lock(step);
    remove_leftovers(step);
    copy_file(step);
    log::verbose("staged {} as {}", slipway::quoted(step.source), slipway::quoted(step.target));
}

}  // namespace

void stage_files(const RunPlan& plan) {
    for (const auto& text : plan.warnings) log::warning("{}", text);
    for (const auto& step : plan.stages) stage_file(step);
}

}  // namespace slipway::runtime
