// libsquashfs objects with owners, and its error codes as errors of ours.
#pragma once

#include <sqfs/compressor.h>
#include <sqfs/error.h>
#include <sqfs/predef.h>

#include <memory>
#include <string>

#include "slipway/image/squashfs.hpp"

namespace slipway::image::squashfs {

struct SqfsDestroy {
    void operator()(void* object) const { sqfs_destroy(object); }
};
/// Owns any libsquashfs object.
template <typename T>
using SqfsPtr = std::unique_ptr<T, SqfsDestroy>;

using Compressor = SqfsPtr<sqfs_compressor_t>;

/// The number by which the superblock names a codec.
SQFS_COMPRESSOR codec_id(SquashfsCodec codec);
/// Make a compressor; not to be shared between threads.
/// Throws: Error(usage) for a level that the codec does not have.
Compressor make_compressor(const SquashfsOptions& options);
/// From now on, say of every block that it is not compressible, or no more: its writer stores it as
/// it is. `compressor`: of make_compressor.
void store_as_is(const Compressor& compressor, bool as_is);
/// Throws: Error(internal) naming the libsquashfs call, for a negative result.
void require_sqfs(int result, const char* call);
/// The same for an object that was not made.
template <typename T>
SqfsPtr<T> require_object(T* object, const char* call) {
    if (object == nullptr) require_sqfs(-1, call);
    return SqfsPtr<T>(object);
}

}  // namespace slipway::image::squashfs
