// Writes entries as a reproducible, compressed tar layer and computes its digests in one pass.
// Must not: choose what goes into a layer.
#include <fmt/core.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/layer.hpp"
#include "tar_format.hpp"

namespace slipway::image {
namespace {

constexpr const char* kSubject = "the layer's file";
constexpr size_t kBufferBytes = 256 << 10;

/// The blob's end of the pipe: hashes and writes what the compressor gives.
struct BlobFile {
    int fd;
    Sha256 hash;
    uint64_t size_bytes = 0;
    void put(const void* data, size_t size) {
        hash.update(data, size);
        size_bytes += size;
        sys::write_all(fd, data, size, kSubject);
    }
};

class Compressor {
 public:
    virtual ~Compressor() = default;
    virtual void put(const void* data, size_t size) = 0;
    virtual void finish() = 0;
};

class NoCompressor : public Compressor {
 public:
    explicit NoCompressor(BlobFile& out) : out_(out) {}
    void put(const void* data, size_t size) override { out_.put(data, size); }
    void finish() override {}

 private:
    BlobFile& out_;
};

/// gzip, level 6, no name and time 0 in its header.
class GzipCompressor : public Compressor {
 public:
    explicit GzipCompressor(BlobFile& out) : out_(out), buffer_(kBufferBytes) {
        if (deflateInit2(&stream_, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
            throw std::bad_alloc();
        }
        header_.os = 255;  // "unknown", as Go writes it: not the machine that wrote the file
        deflateSetHeader(&stream_, &header_);
    }
    ~GzipCompressor() override { deflateEnd(&stream_); }
    GzipCompressor(const GzipCompressor&) = delete;
    GzipCompressor& operator=(const GzipCompressor&) = delete;

    void put(const void* data, size_t size) override {
        const auto* bytes = static_cast<const unsigned char*>(data);
        while (size > 0) {
            uInt part = static_cast<uInt>(std::min<size_t>(size, 1u << 30));
            stream_.next_in = const_cast<unsigned char*>(bytes);
            stream_.avail_in = part;
            while (stream_.avail_in > 0) step(Z_NO_FLUSH);
            bytes += part;
            size -= part;
        }
    }
    void finish() override {
        stream_.avail_in = 0;
        while (step(Z_FINISH) != Z_STREAM_END) {
        }
    }

 private:
    int step(int flush) {
        stream_.next_out = buffer_.data();
        stream_.avail_out = static_cast<uInt>(buffer_.size());
        int status = deflate(&stream_, flush);
        if (status == Z_STREAM_ERROR) throw Error(ErrorKind::internal, "deflate failed");
        out_.put(buffer_.data(), buffer_.size() - stream_.avail_out);
        return status;
    }

    BlobFile& out_;
    z_stream stream_{};
    gz_header header_{};
    std::vector<unsigned char> buffer_;
};

class ZstdCompressor : public Compressor {
 public:
    explicit ZstdCompressor(BlobFile& out)
        : out_(out), context_(ZSTD_createCCtx()), buffer_(ZSTD_CStreamOutSize()) {
        if (!context_) throw std::bad_alloc();
        ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, 3);
        ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
    }
    void put(const void* data, size_t size) override {
        ZSTD_inBuffer in{data, size, 0};
        while (in.pos < in.size) step(in, ZSTD_e_continue);
    }
    void finish() override {
        ZSTD_inBuffer in{nullptr, 0, 0};
        while (step(in, ZSTD_e_end) != 0) {
        }
    }

 private:
    size_t step(ZSTD_inBuffer& in, ZSTD_EndDirective directive) {
        ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
        size_t left = ZSTD_compressStream2(context_.get(), &out, &in, directive);
        if (ZSTD_isError(left)) throw Error(ErrorKind::internal, ZSTD_getErrorName(left));
        out_.put(buffer_.data(), out.pos);
        return left;
    }
    struct Free {
        void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    };
    BlobFile& out_;
    std::unique_ptr<ZSTD_CCtx, Free> context_;
    std::vector<char> buffer_;
};

std::unique_ptr<Compressor> make_compressor(LayerCompression compression, BlobFile& out) {
    switch (compression) {
        case LayerCompression::gzip:
            return std::make_unique<GzipCompressor>(out);
        case LayerCompression::zstd:
            return std::make_unique<ZstdCompressor>(out);
        case LayerCompression::none:
            break;
    }
    return std::make_unique<NoCompressor>(out);
}

const char* media_type(LayerCompression compression) {
    switch (compression) {
        case LayerCompression::gzip:
            return "application/vnd.oci.image.layer.v1.tar+gzip";
        case LayerCompression::zstd:
            return "application/vnd.oci.image.layer.v1.tar+zstd";
        case LayerCompression::none:
            break;
    }
    return "application/vnd.oci.image.layer.v1.tar";
}

}  // namespace

struct LayerWriter::State {
    State(int fd, LayerCompression kind, std::optional<int64_t> clamp)
        : blob{fd, {}}, compression(kind), clamp_mtime(clamp) {
        buffer.reserve(kBufferBytes);
    }

    BlobFile blob;
    LayerCompression compression;
    std::unique_ptr<Compressor> compressor = make_compressor(compression, blob);
    Sha256 diff_hash;
    std::optional<int64_t> clamp_mtime;
    std::string buffer;  ///< of the uncompressed tar
    std::string path;    ///< of the entry being written
    uint64_t left = 0;   ///< bytes of its file still to come
    uint64_t padding = 0;

    void flush() {
        diff_hash.update(buffer);
        compressor->put(buffer.data(), buffer.size());
        buffer.clear();
    }
    void put(const void* data, size_t size) {
        const bool direct = size > kBufferBytes / 2;
        if (direct || buffer.size() + size > kBufferBytes) flush();
        if (direct) {
            diff_hash.update(data, size);
            compressor->put(data, size);
        } else {
            buffer.append(static_cast<const char*>(data), size);
        }
    }
    void end_entry() {
        if (left > 0) {
            throw Error(ErrorKind::internal,
                        fmt::format("{} bytes of {} were not written", left, quoted(path)));
        }
        static constexpr char kZeros[kTarBlockBytes] = {};
        if (padding > 0) put(kZeros, padding);
        padding = 0;
    }
};

LayerWriter::LayerWriter(int fd, LayerCompression compression, std::optional<int64_t> clamp_mtime)
    : state_(std::make_unique<State>(fd, compression, clamp_mtime)) {}
LayerWriter::~LayerWriter() = default;

void LayerWriter::add(const Entry& entry) {
    state_->end_entry();
    std::string header;
    if (state_->clamp_mtime && entry.mtime > *state_->clamp_mtime) {
        Entry clamped = entry;
        clamped.mtime = *state_->clamp_mtime;
        header = tar_header(clamped);
    } else {
        header = tar_header(entry);
    }
    state_->put(header.data(), header.size());
    state_->path = entry.path;
    if (entry.type == EntryType::file) {
        state_->left = entry.size_bytes;
        state_->padding = (kTarBlockBytes - entry.size_bytes % kTarBlockBytes) % kTarBlockBytes;
    }
}

void LayerWriter::write(const void* data, size_t size_bytes) {
    if (size_bytes > state_->left) {
        throw Error(ErrorKind::internal,
                    fmt::format("more bytes than announced for {}", quoted(state_->path)));
    }
    state_->put(data, size_bytes);
    state_->left -= size_bytes;
}

void LayerWriter::add_all(EntrySource& source) {
    std::vector<char> data(kBufferBytes);
    Entry entry;
    while (source.next(entry)) {
        add(entry);
        if (entry.type != EntryType::file) continue;
        while (size_t got = source.read(data.data(), data.size())) write(data.data(), got);
    }
}

Layer LayerWriter::finish() {
    state_->end_entry();
    static constexpr char kEnd[2 * kTarBlockBytes] = {};
    state_->put(kEnd, sizeof kEnd);
    state_->flush();
    state_->compressor->finish();
    Layer layer;
    layer.digest = state_->blob.hash.finish();
    layer.diff_id = state_->diff_hash.finish();
    layer.size_bytes = state_->blob.size_bytes;
    layer.media_type = media_type(state_->compression);
    return layer;
}

}  // namespace slipway::image
