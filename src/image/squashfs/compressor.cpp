// libsquashfs compressors with our options.
// Must not: decompress what is not ours to trust (decompress.cpp does, within bounds).
#include "compressor.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"

namespace slipway::image::squashfs {
namespace {

struct CodecRow {
    SquashfsCodec codec;
    SQFS_COMPRESSOR id;
    const char* name;
    int usual_level, lowest, highest;
};
constexpr CodecRow kCodecs[] = {
    {SquashfsCodec::zstd, SQFS_COMP_ZSTD, "zstd", 3, SQFS_ZSTD_MIN_LEVEL, SQFS_ZSTD_MAX_LEVEL},
    {SquashfsCodec::gzip, SQFS_COMP_GZIP, "gzip", 6, SQFS_GZIP_MIN_LEVEL, SQFS_GZIP_MAX_LEVEL},
    {SquashfsCodec::xz, SQFS_COMP_XZ, "xz", 6, SQFS_XZ_MIN_LEVEL, SQFS_XZ_MAX_LEVEL},
    {SquashfsCodec::lz4, SQFS_COMP_LZ4, "lz4", 0, 0, 0},
};

const CodecRow& row_of(SquashfsCodec codec) {
    for (const CodecRow& row : kCodecs)
        if (row.codec == codec) return row;
    throw Error(ErrorKind::internal, "unknown codec");
}

/// Says "not compressible" where libsquashfs's own would not. Its lz4 hands back results that are
/// larger than their input, and its metadata writer stores them; unsquashfs calls such an image
/// corrupt.
struct Choosy {
    sqfs_compressor_t face;  // first: libsquashfs hands back its address
    Compressor inner;
    bool as_is = false;

    static Choosy* of(const void* face) { return static_cast<Choosy*>(const_cast<void*>(face)); }
    static sqfs_s32 do_block(sqfs_compressor_t* face, const sqfs_u8* in, sqfs_u32 size,
                             sqfs_u8* out, sqfs_u32 outsize) {
        if (of(face)->as_is) return 0;
        sqfs_compressor_t* inner = of(face)->inner.get();
        const sqfs_s32 packed = inner->do_block(inner, in, size, out, outsize);
        return packed > 0 && static_cast<sqfs_u32>(packed) >= size ? 0 : packed;
    }
    static Compressor wrap(Compressor inner) {
        auto* self = new Choosy{{}, std::move(inner)};
        self->face.base.destroy = [](sqfs_object_t* face) { delete of(face); };
        self->face.get_configuration = [](const sqfs_compressor_t* face,
                                          sqfs_compressor_config_t* config) {
            of(face)->inner->get_configuration(of(face)->inner.get(), config);
        };
        self->face.write_options = [](sqfs_compressor_t* face, sqfs_file_t* file) {
            return of(face)->inner->write_options(of(face)->inner.get(), file);
        };
        self->face.read_options = [](sqfs_compressor_t* face, sqfs_file_t* file) {
            return of(face)->inner->read_options(of(face)->inner.get(), file);
        };
        self->face.do_block = do_block;
        return Compressor(&self->face);
    }
};

const char* describe(int result) {
    switch (result) {
        case SQFS_ERROR_ALLOC:
            return "out of memory";
        case SQFS_ERROR_IO:
            return "input or output failed";
        case SQFS_ERROR_COMPRESSOR:
            return "the compressor failed";
        case SQFS_ERROR_CORRUPTED:
            return "damaged data";
        case SQFS_ERROR_UNSUPPORTED:
            return "not supported";
        case SQFS_ERROR_OVERFLOW:
            return "a number is too large for the format";
        case SQFS_ERROR_OUT_OF_BOUNDS:
            return "out of bounds";
        default:
            return "it was used wrongly";
    }
}

}  // namespace

SQFS_COMPRESSOR codec_id(SquashfsCodec codec) { return row_of(codec).id; }

void require_sqfs(int result, const char* call) {
    if (result < 0)
        throw Error(ErrorKind::internal,
                    fmt::format("libsquashfs: {} ({}, {})", describe(result), result, call));
}

Compressor make_compressor(const SquashfsOptions& options) {
    const CodecRow& row = row_of(options.codec);
    const int level = options.level == 0 ? row.usual_level : options.level;
    if (level < row.lowest || level > row.highest)
        throw Error(ErrorKind::usage,
                    fmt::format("{} has no compression level {}", row.name, options.level))
            .hint(fmt::format("give one from {} to {}", row.lowest, row.highest));
    sqfs_compressor_config_t config;
    require_sqfs(sqfs_compressor_config_init(&config, row.id, options.block_size_bytes, 0),
                 "sqfs_compressor_config_init");
    if (row.highest > 0) config.level = static_cast<sqfs_u32>(level);
    sqfs_compressor_t* compressor = nullptr;
    if (sqfs_compressor_create(&config, &compressor) != 0)
        throw Error(ErrorKind::unsupported,
                    fmt::format("this build's libsquashfs cannot compress with {}", row.name))
            .hint("choose another codec: zstd, gzip, xz, lz4");
    return Choosy::wrap(Compressor(compressor));
}

void store_as_is(const Compressor& compressor, bool as_is) {
    Choosy::of(compressor.get())->as_is = as_is;
}

}  // namespace slipway::image::squashfs
