// The output file and its face towards libsquashfs.
// Must not: touch an existing output before the new one is whole.
#include "output_file.hpp"

#include <cstdlib>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {

OutputFile::OutputFile(const std::string& path) : path_(path), file_(path) {
    interface_ = {};
    interface_.owner = this;
    interface_.file.base.destroy = [](sqfs_object_t*) {};
    interface_.file.base.copy = nullptr;
    interface_.file.read_at = read_at;
    interface_.file.write_at = write_at;
    interface_.file.get_size = get_size;
    interface_.file.truncate = truncate;
}

void OutputFile::set_size(uint64_t size_bytes) {
    sys::ftruncate(fd(), static_cast<off_t>(size_bytes), path_);
    size_bytes_ = size_bytes;
}

void OutputFile::commit(std::optional<mode_t> mode) {
    sys::fsync(fd(), path_);
    file_.commit(mode.value_or(user_mode(0666)));
}

OutputFile* OutputFile::owner_of(const sqfs_file_t* file) {
    return reinterpret_cast<const Interface*>(file)->owner;
}

int OutputFile::read_at(sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size) {
    OutputFile* self = owner_of(file);
    try {
        auto* to = static_cast<char*>(buffer);
        while (size > 0) {
            const size_t n = sys::pread(self->fd(), to, size, offset, self->path_);
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
        sys::pwrite_all(self->fd(), buffer, size, offset, self->path_);
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
