// One block in, one block out: zstd, gzip, xz and lz4 by their own libraries with a context kept
// per thread; lzo, which old images use, by libsquashfuse.
// Must not: trust any size that the data claims.
#include "decompress.hpp"

#include <lz4.h>
#include <lzma.h>
#include <zstd.h>

#include <memory>

// libsquashfuse installs its config.h, which redefines a macro of the C library's.
#pragma push_macro("_POSIX_C_SOURCE")
#undef _POSIX_C_SOURCE
extern "C" {
#include <common.h>
#include <decompress.h>
}
#undef _POSIX_C_SOURCE
#pragma pop_macro("_POSIX_C_SOURCE")

#include "../layer/isal.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr uint16_t kGzip = 1, kLzma = 2, kLzo = 3, kXz = 4, kLz4 = 5, kZstd = 6;
// A block is at most 1 MiB and so is any dictionary that a writer would choose for it.
constexpr uint64_t kXzMemory = 32u << 20;

std::optional<size_t> decompress_zstd(const void* input, size_t input_bytes, void* output,
                                      size_t capacity) {
    struct FreeContext {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    thread_local std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
    const size_t size = ZSTD_decompressDCtx(context.get(), output, capacity, input, input_bytes);
    if (ZSTD_isError(size)) return std::nullopt;
    return size;
}

std::optional<size_t> decompress_gzip(const void* input, size_t input_bytes, void* output,
                                      size_t capacity) {
    thread_local std::unique_ptr<inflate_state> state(new inflate_state);
    const Isal& library = isal();
    library.inflate_init(state.get());
    state->crc_flag = ISAL_ZLIB;
    state->next_in = static_cast<uint8_t*>(const_cast<void*>(input));
    state->avail_in = static_cast<uint32_t>(input_bytes);
    state->next_out = static_cast<uint8_t*>(output);
    state->avail_out = static_cast<uint32_t>(capacity);
    if (library.inflate_stateless(state.get()) != ISAL_DECOMP_OK) return std::nullopt;
    return capacity - state->avail_out;
}

std::optional<size_t> decompress_xz(const void* input, size_t input_bytes, void* output,
                                    size_t capacity) {
    uint64_t memory = kXzMemory;
    size_t in = 0, out = 0;
    if (lzma_stream_buffer_decode(&memory, 0, nullptr, static_cast<const uint8_t*>(input), &in,
                                  input_bytes, static_cast<uint8_t*>(output), &out,
                                  capacity) != LZMA_OK)
        return std::nullopt;
    return out;
}

std::optional<size_t> decompress_other(uint16_t codec, const void* input, size_t input_bytes,
                                       void* output, size_t capacity) {
    const sqfs_decompressor function = sqfs_decompressor_get(codec);
    size_t size = capacity;
    if (function == nullptr ||
        function(const_cast<void*>(input), input_bytes, output, &size) != SQFS_OK ||
        size > capacity)
        return std::nullopt;
    return size;
}

}  // namespace

std::string_view codec_name(uint16_t codec) {
    constexpr std::string_view names[] = {"", "gzip", "lzma", "lzo", "xz", "lz4", "zstd"};
    return codec < std::size(names) ? names[codec] : "";
}

bool codec_supported(uint16_t codec) {
    if (codec == kGzip) isal();  // told now, not by the server's first read
    if (codec == kGzip || codec == kXz || codec == kLz4 || codec == kZstd) return true;
    return codec == kLzo && sqfs_decompressor_get(codec) != nullptr;
}

std::optional<size_t> decompress(uint16_t codec, const void* input, size_t input_bytes,
                                 void* output, size_t capacity) {
    switch (codec) {
        case kZstd:
            return decompress_zstd(input, input_bytes, output, capacity);
        case kGzip:
            return decompress_gzip(input, input_bytes, output, capacity);
        case kXz:
            return decompress_xz(input, input_bytes, output, capacity);
        case kLz4: {
            const int size =
                LZ4_decompress_safe(static_cast<const char*>(input), static_cast<char*>(output),
                                    static_cast<int>(input_bytes), static_cast<int>(capacity));
            if (size < 0) return std::nullopt;
            return static_cast<size_t>(size);
        }
        case kLzma:
            return std::nullopt;
        default:
            return decompress_other(codec, input, input_bytes, output, capacity);
    }
}

}  // namespace slipway::image::squashfs
