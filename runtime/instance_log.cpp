// Writes, turns over and reads an instance's log.
// Must not: stop a service because its log cannot be written.
#include "instance_log.hpp"

#include <cerrno>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

LogWriter::LogWriter(std::string path, uint64_t limit_bytes)
    : path_(std::move(path)),
      limit_(limit_bytes),
      file_(sys::open(path_, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600)) {}

void LogWriter::rotate() {
    sys::renameat(AT_FDCWD, path_, AT_FDCWD, path_ + ".1");
    file_ = sys::open(path_, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    size_ = 0;
}

void LogWriter::append(std::string_view text) noexcept {
    try {
        while (!text.empty()) {
            const uint64_t room = limit_ > size_ ? limit_ - size_ : 0;
            std::string_view piece = text.substr(0, room);
            // A line is kept whole where it fits a file at all.
            if (const size_t line = piece.rfind('\n');
                piece.size() < text.size() && line != std::string_view::npos)
                piece = piece.substr(0, line + 1);
            else if (piece.size() < text.size() && size_ > 0)
                piece = {};
            sys::write_all(file_.get(), piece.data(), piece.size(), path_);
            size_ += piece.size();
            text.remove_prefix(piece.size());
            if (!text.empty()) rotate();
        }
    } catch (const std::exception&) {  // a full disk; what comes later may fit again
    }
}

std::string LogReader::read_new() {
    std::string text;
    const auto drain = [&] {
        if (file_) text += read_all(file_.get(), path_, UINT64_MAX);
    };
    const auto there = sys::stat_if_exists(AT_FDCWD, path_);
    if (!there) return text;
    drain();
    if (file_ && there->st_ino == inode_) return text;
    drain();  // what came before the file was renamed
    if (auto file = sys::openat_if_exists(AT_FDCWD, path_, O_RDONLY)) {
        file_ = std::move(*file);
        inode_ = sys::fstat(file_.get(), path_).st_ino;
        drain();
    }
    return text;
}

std::string read_log(const std::string& path) {
    std::string text;
    for (const std::string& name : {path + ".1", path})
        if (auto file = sys::openat_if_exists(AT_FDCWD, name, O_RDONLY))
            text += read_all(file->get(), name, UINT64_MAX);
    return text;
}

std::string last_lines(const std::string& text, uint64_t count) {
    if (count == 0) return "";
    size_t at = text.size();
    if (at > 0 && text[at - 1] == '\n') --at;
    while (at > 0) {
        const size_t line = text.rfind('\n', at - 1);
        if (line == std::string::npos) return text;
        if (--count == 0) return text.substr(line + 1);
        at = line;
    }
    return text;
}

}  // namespace slipway::runtime
