// The output file and its face towards libsquashfs.
// Must not: touch an existing output before the new one is whole.
#include "output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "../temp_file.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {

OutputFile::OutputFile(const std::string& path) : path_(path) {
    // A file without a name cannot be left behind, whatever kills us.
    const std::string parent(parent_path(absolute_path(path)));
    fd_.reset(::open(parent.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!fd_) {  // NFS and others have no such files
        std::string name = path + ".XXXXXX";
        fd_.reset(::mkostemp(name.data(), O_CLOEXEC));
        if (!fd_) throw SysError(fmt::format("cannot write {}", slipway::quoted(path)), "mkostemp");
        temporary_ = name;
    }
    interface_ = {};
    interface_.owner = this;
    interface_.file.base.destroy = [](sqfs_object_t*) {};
    interface_.file.base.copy = nullptr;
    interface_.file.read_at = read_at;
    interface_.file.write_at = write_at;
    interface_.file.get_size = get_size;
    interface_.file.truncate = truncate;
}

OutputFile::~OutputFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::set_size(uint64_t size_bytes) {
    sys::ftruncate(fd_.get(), static_cast<off_t>(size_bytes), path_);
    size_bytes_ = size_bytes;
}

void OutputFile::commit() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    sys::fchmod(fd_.get(), 0666 & ~mask, path_);
    sys::fsync(fd_.get(), path_);
    if (temporary_.empty()) {
        // A link cannot take the place of an older output; a rename can.
        const std::string name = path_ + "." + temporary_name();
        sys::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd_.get()), AT_FDCWD, name,
                    AT_SYMLINK_FOLLOW);
        temporary_ = name;
    }
    sys::renameat(AT_FDCWD, temporary_, AT_FDCWD, path_);
    temporary_.clear();
}

OutputFile* OutputFile::owner_of(const sqfs_file_t* file) {
    return reinterpret_cast<const Interface*>(file)->owner;
}

int OutputFile::read_at(sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size) {
    OutputFile* self = owner_of(file);
    try {
        auto* to = static_cast<char*>(buffer);
        while (size > 0) {
            const size_t n = sys::pread(self->fd_.get(), to, size, offset, self->path_);
            if (n == 0) return -8;  // SQFS_ERROR_OUT_OF_BOUNDS
            to += n;
            offset += n;
            size -= n;
        }
        return 0;
    } catch (...) {
        self->failure_ = std::current_exception();
        return -2;  // SQFS_ERROR_IO
    }
}

int OutputFile::write_at(sqfs_file_t* file, sqfs_u64 offset, const void* buffer, size_t size) {
    OutputFile* self = owner_of(file);
    try {
        sys::pwrite_all(self->fd_.get(), buffer, size, offset, self->path_);
        self->size_bytes_ = std::max<uint64_t>(self->size_bytes_, offset + size);
        return 0;
    } catch (...) {
        self->failure_ = std::current_exception();
        return -2;  // SQFS_ERROR_IO
    }
}

sqfs_u64 OutputFile::get_size(const sqfs_file_t* file) { return owner_of(file)->size_bytes_; }

int OutputFile::truncate(sqfs_file_t* file, sqfs_u64 size) {
    OutputFile* self = owner_of(file);
    try {
        self->set_size(size);
        return 0;
    } catch (...) {
        self->failure_ = std::current_exception();
        return -2;  // SQFS_ERROR_IO
    }
}

}  // namespace slipway::image::squashfs
