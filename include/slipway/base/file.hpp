// Whole files, temporary directories and locks, on the host.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "slipway/base/fd.hpp"

namespace slipway {

/// Read a whole file. Throws: SysError; Error(io) when it is larger than `limit_bytes`.
std::string read_file(const std::string& path, uint64_t limit_bytes = 64u << 20);
/// Read everything from an open descriptor, from its current position.
std::string read_all(int fd, const std::string& subject, uint64_t limit_bytes = 64u << 20);
/// Write a temporary file beside `path`, fsync it and rename it over `path`; nothing is left behind
/// on failure.
void write_file_atomic(const std::string& path, std::string_view data, unsigned mode = 0644);
/// Copy `size_bytes` from one descriptor to another through the kernel where it can
/// (copy_file_range).
void copy_bytes(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size_bytes,
                const std::string& subject);

/// Remove `name` below the open directory `dir` with all its contents, through descriptors,
/// following no link; directories without permissions are opened up first. An absent name is no
/// error.
void remove_tree(int dir, const std::string& name);
void remove_tree(const std::string& path);

/// A directory removed with all its contents when the owner goes.
class TempDir {
 public:
    /// Make `parent`/`prefix`XXXXXX with mode 0700.
    explicit TempDir(const std::string& parent, const std::string& prefix = "slipway-");
    TempDir(TempDir&& other) noexcept;
    TempDir& operator=(TempDir&& other) noexcept;
    ~TempDir();
    const std::string& path() const { return path_; }
    /// Keep the directory: it is the caller's from now on.
    std::string release();

 private:
    std::string path_;
};

/// The directory for short-lived files: $TMPDIR if set and absolute, else /tmp.
std::string temporary_directory();

/// An advisory lock on a file that is made if absent; freed by the destructor or the process's end.
class FileLock {
 public:
    enum class Mode { shared, exclusive };
    /// Throws: Error(busy) naming the file when it is not free within `timeout`.
    FileLock(const std::string& path, Mode mode, std::chrono::milliseconds timeout);

 private:
    UniqueFd fd_;
};

}  // namespace slipway
