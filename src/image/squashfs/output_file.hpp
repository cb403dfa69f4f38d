// The output: a file without a name until it is whole, which libsquashfs writes through us.
#pragma once

#include <sqfs/io.h>
#include <sys/types.h>

#include <exception>
#include <optional>
#include <string>

#include "../temp_file.hpp"

namespace slipway::image::squashfs {

/// A new file that gets its name by rename, whole, or leaves nothing behind.
class OutputFile {
 public:
    explicit OutputFile(const std::string& path);
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    int fd() const { return file_.fd(); }
    const std::string& path() const { return path_; }
    uint64_t size_bytes() const { return size_bytes_; }
    void set_size(uint64_t size_bytes);
    /// For libsquashfs; valid as long as this object.
    sqfs_file_t* sqfs() { return &interface_.file; }
    /// Throw what a callback of libsquashfs caught: errors cannot pass through its C code.
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }
    /// fsync and rename over the path; `mode` is that of any new file (the umask's), or the one
    /// given.
    void commit(std::optional<mode_t> mode = {});

 private:
    struct Interface {
        sqfs_file_t file;  // first: libsquashfs hands back its address
        OutputFile* owner;
    };
    static OutputFile* owner_of(const sqfs_file_t* file);
    static int read_at(sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size);
    static int write_at(sqfs_file_t* file, sqfs_u64 offset, const void* buffer, size_t size);
    static sqfs_u64 get_size(const sqfs_file_t* file);
    static int truncate(sqfs_file_t* file, sqfs_u64 size);

    std::string path_;
    NewFile file_;
    uint64_t size_bytes_ = 0;
    Interface interface_;
    std::exception_ptr failure_;
};

}  // namespace slipway::image::squashfs
