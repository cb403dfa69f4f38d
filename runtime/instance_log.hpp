// An instance's log: written with a bound on its size, read while it grows.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "slipway/base/fd.hpp"

namespace slipway::runtime {

/// Appends to a file; when it has grown to `limit_bytes` it becomes FILE.1, and a new one begins.
class LogWriter {
 public:
    LogWriter(std::string path, uint64_t limit_bytes);
    /// Never throws: a service goes on when its log's disk is full.
    void append(std::string_view text) noexcept;

 private:
    void rotate();
    std::string path_;
    uint64_t limit_;
    uint64_t size_ = 0;
    UniqueFd file_;
};

/// Reads a log from its begin, across its rotation.
class LogReader {
 public:
    explicit LogReader(std::string path) : path_(std::move(path)) {}
    /// What was written since the last call; "" when nothing was.
    std::string read_new();

 private:
    std::string path_;
    UniqueFd file_;
    ino_t inode_ = 0;
};

/// FILE.1 and FILE as one text.
std::string read_log(const std::string& path);
/// The last lines of a text.
std::string last_lines(const std::string& text, uint64_t count);

}  // namespace slipway::runtime
