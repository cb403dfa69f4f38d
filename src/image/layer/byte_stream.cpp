// Decompresses blobs (gzip by ISA-L, zstd) ahead of the reader, in a thread with a bounded queue.
// Must not: know what the bytes mean.
#include "byte_stream.hpp"

#include <fmt/core.h>
#include <zstd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "isal.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr size_t kInputBytes = 256 << 10;
constexpr size_t kPieceBytes = 512 << 10;
constexpr size_t kPiecesAhead = 8;

[[noreturn]] void damaged(const std::string& subject, const std::string& why) {
    throw Error(ErrorKind::invalid_archive, fmt::format("cannot decompress {}: {}", subject, why))
        .hint("copy or pull the image again; this file is damaged or was cut off");
}

/// A running digest that must come out as expected.
class Check {
 public:
    Check(std::string subject, Digest expected)
        : subject_(std::move(subject)), expected_(std::move(expected)) {}
    void update(const void* data, size_t size_bytes) {
        if (!expected_.empty()) hash_.update(data, size_bytes);
    }
    /// At the end, once.
    void finish(const char* what) {
        if (expected_.empty()) return;
        const Digest found = hash_.finish();
        if (found != expected_)
            throw Error(ErrorKind::invalid_image, fmt::format("{} is damaged", subject_))
                .note(fmt::format("{} is {}, expected {}", what, found.text(), expected_.text()))
                .hint("copy or pull the image again");
        expected_ = {};
    }

 private:
    std::string subject_;
    Digest expected_;
    Sha256 hash_;
};

/// The compressed file, a buffer at a time.
class Input {
 public:
    Input(UniqueFd fd, std::string subject, Digest expected, Progress* progress)
        : fd_(std::move(fd)),
          subject_(std::move(subject)),
          check_(subject_, std::move(expected)),
          progress_(progress),
          buffer_(kInputBytes) {}
    /// Fill the buffer; an empty span is the end of the file.
    std::span<std::byte> refill() {
        const size_t got = sys::read(fd_.get(), buffer_.data(), buffer_.size(), subject_);
        check_.update(buffer_.data(), got);
        if (got == 0) check_.finish("its digest");
        if (progress_ != nullptr) progress_->add(got);
        return {buffer_.data(), got};
    }
    const std::string& subject() const { return subject_; }

 private:
    UniqueFd fd_;
    std::string subject_;
    Check check_;
    Progress* progress_;
    std::vector<std::byte> buffer_;
};

/// Fills buffers with decompressed bytes.
class Decoder {
 public:
    virtual ~Decoder() = default;
    /// Return how many bytes were put into `out`; 0 at the end.
    virtual size_t decode(std::span<std::byte> out) = 0;
};

/// gzip (RFC 1952), members one after another; ISA-L checks each member's CRC and length.
class GzipDecoder : public Decoder {
 public:
    explicit GzipDecoder(Input input) : input_(std::move(input)) { begin_member(); }

    size_t decode(std::span<std::byte> out) override {
        state_.next_out = reinterpret_cast<uint8_t*>(out.data());
        state_.avail_out = static_cast<uint32_t>(out.size());
        while (state_.avail_out > 0 && !ended_) {
            if (state_.block_state == ISAL_BLOCK_FINISH) {
                next_member();
                continue;
            }
            if (state_.avail_in == 0 && !refill() && !pending_output()) {
                damaged(input_.subject(), "the gzip data ends too early");
            }
            uint32_t before = state_.avail_out;
            uint32_t input_before = state_.avail_in;
            check(isal_.inflate(&state_));
            bool moved = before != state_.avail_out || input_before != state_.avail_in;
            if (!moved && at_end_ && state_.block_state != ISAL_BLOCK_FINISH) {
                damaged(input_.subject(), "the gzip data ends too early");
            }
        }
        return out.size() - state_.avail_out;
    }

 private:
    void begin_member() {
        uint8_t* in = state_.next_in;
        uint32_t available = state_.avail_in;
        uint8_t* out = state_.next_out;
        uint32_t room = state_.avail_out;
        isal_.inflate_init(&state_);
        state_.crc_flag = ISAL_GZIP;
        state_.next_in = in;
        state_.avail_in = available;
        state_.next_out = out;
        state_.avail_out = room;
    }

    bool refill() {
        auto piece = input_.refill();
        state_.next_in = reinterpret_cast<uint8_t*>(piece.data());
        state_.avail_in = static_cast<uint32_t>(piece.size());
        if (piece.empty()) at_end_ = true;
        return !piece.empty();
    }

    // After the last input byte ISA-L may still hold decoded bytes.
    bool pending_output() const {
        return state_.block_state == ISAL_BLOCK_INPUT_DONE || state_.tmp_out_valid > 0 ||
               state_.read_in_length > 0;
    }

    // Zero padding after a member (tape blocks) is skipped; anything else must be a member.
    void next_member() {
        for (;;) {
            if (state_.avail_in == 0 && !refill()) {
                ended_ = true;
                return;
            }
            while (state_.avail_in > 0 && *state_.next_in == 0) {
                ++state_.next_in;
                --state_.avail_in;
            }
            if (state_.avail_in == 0) continue;
            if (*state_.next_in != 0x1f) {
                damaged(input_.subject(), "something that is not gzip follows the gzip data");
            }
            begin_member();
            return;
        }
    }

    void check(int status) const {
        switch (status) {
            case ISAL_DECOMP_OK:
            case ISAL_END_INPUT:
            case ISAL_OUT_OVERFLOW:
                return;
            case ISAL_INCORRECT_CHECKSUM:
                damaged(input_.subject(), "its checksum is wrong");
            case ISAL_INVALID_WRAPPER:
            case ISAL_UNSUPPORTED_METHOD:
                damaged(input_.subject(), "its gzip header is invalid");
            default:
                damaged(input_.subject(), "its gzip data is invalid");
        }
    }

    Input input_;
    const Isal& isal_ = isal();
    inflate_state state_{};
    bool at_end_ = false;
    bool ended_ = false;
};

class ZstdDecoder : public Decoder {
 public:
    explicit ZstdDecoder(Input input) : input_(std::move(input)), context_(ZSTD_createDCtx()) {
        if (!context_) throw std::bad_alloc();
        // Long-distance matching up to 2 GiB, as `zstd --ultra --long=31` writes it.
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 31);
    }

    size_t decode(std::span<std::byte> out) override {
        ZSTD_outBuffer output{out.data(), out.size(), 0};
        while (output.pos < output.size) {
            if (in_.pos == in_.size && !ended_) {
                auto piece = input_.refill();
                in_ = {piece.data(), piece.size(), 0};
                ended_ = piece.empty();
            }
            if (between_frames_) {
                skip_padding();
                if (in_.pos == in_.size) {
                    if (ended_) break;
                    continue;
                }
            }
            size_t before = output.pos;
            size_t wanted = ZSTD_decompressStream(context_.get(), &output, &in_);
            if (ZSTD_isError(wanted)) damaged(input_.subject(), ZSTD_getErrorName(wanted));
            between_frames_ = wanted == 0;
            if (ended_ && !between_frames_ && output.pos == before) {
                damaged(input_.subject(), "the zstd data ends too early");
            }
        }
        return output.pos;
    }

 private:
    void skip_padding() {
        const auto* bytes = static_cast<const std::byte*>(in_.src);
        while (in_.pos < in_.size && bytes[in_.pos] == std::byte{0}) ++in_.pos;
    }

    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    Input input_;
    std::unique_ptr<ZSTD_DCtx, Free> context_;
    ZSTD_inBuffer in_{nullptr, 0, 0};
    bool between_frames_ = false;
    bool ended_ = false;
};

/// Runs a decoder in a thread; pieces pass through a bounded queue.
class ReadAhead : public ByteStream {
 public:
    ReadAhead(std::unique_ptr<Decoder> decoder, Check check)
        : decoder_(std::move(decoder)), check_(std::move(check)), thread_([this] { run(); }) {}

    ~ReadAhead() override {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    std::span<const std::byte> next() override {
        std::unique_lock lock(mutex_);
        if (!current_.empty()) spare_.push_back(std::move(current_));
        current_.clear();
        changed_.notify_all();
        changed_.wait(lock, [this] { return !full_.empty() || ended_; });
        if (!full_.empty()) {
            current_ = std::move(full_.front());
            full_.pop_front();
            changed_.notify_all();
            return current_;
        }
        if (failure_) std::rethrow_exception(failure_);
        return {};
    }

 private:
    void run() {
        try {
            while (auto piece = empty_piece()) {
                size_t got = decoder_->decode(*piece);
                check_.update(piece->data(), got);
                if (got == 0) {
                    check_.finish("the digest of its decompressed data (diff id)");
                    break;
                }
                piece->resize(got);
                std::lock_guard lock(mutex_);
                full_.push_back(std::move(*piece));
                changed_.notify_all();
            }
        } catch (...) {
            std::lock_guard lock(mutex_);
            failure_ = std::current_exception();
        }
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }

    // Wait for room in the queue; std::nullopt when the reader has gone.
    std::optional<std::vector<std::byte>> empty_piece() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || full_.size() < kPiecesAhead; });
        if (stop_) return std::nullopt;
        std::vector<std::byte> piece;
        if (!spare_.empty()) {
            piece = std::move(spare_.back());
            spare_.pop_back();
        }
        piece.resize(kPieceBytes);
        return piece;
    }

    std::unique_ptr<Decoder> decoder_;
    Check check_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::vector<std::byte>> full_;
    std::vector<std::vector<std::byte>> spare_;
    std::vector<std::byte> current_;
    std::exception_ptr failure_;
    bool ended_ = false;
    bool stop_ = false;
    std::thread thread_;  // last: it uses all of the above
};

class PlainStream : public ByteStream {
 public:
    explicit PlainStream(Input input) : input_(std::move(input)) {}
    std::span<const std::byte> next() override { return input_.refill(); }

 private:
    Input input_;
};

}  // namespace

Compression detect_compression(int fd, const std::string& subject) {
    unsigned char magic[4] = {};
    size_t got = sys::pread(fd, magic, sizeof magic, 0, subject);
    if (got >= 2 && magic[0] == 0x1f && magic[1] == 0x8b) return Compression::gzip;
    bool frame = magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd;
    bool skippable =
        (magic[0] & 0xf0) == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18;
    return got == 4 && (frame || skippable) ? Compression::zstd : Compression::none;
}

std::unique_ptr<ByteStream> open_decompressed(UniqueFd fd, const std::string& subject,
                                              const ExpectedDigests& expected, Progress* progress) {
    const Compression compression = detect_compression(fd.get(), subject);
    if (compression == Compression::none) {
        // Both digests are of the same bytes.
        const Digest& only =
            expected.decompressed.empty() ? expected.stored : expected.decompressed;
        if (!expected.stored.empty() && only != expected.stored)
            throw Error(ErrorKind::invalid_image, fmt::format("{} is damaged", subject))
                .note(fmt::format("it is not compressed, but its digest is {} and its diff id {}",
                                  expected.stored.text(), only.text()))
                .hint("copy or pull the image again");
        return std::make_unique<PlainStream>(Input(std::move(fd), subject, only, progress));
    }
    Input input(std::move(fd), subject, expected.stored, progress);
    std::unique_ptr<Decoder> decoder;
    if (compression == Compression::gzip)
        decoder = std::make_unique<GzipDecoder>(std::move(input));
    else
        decoder = std::make_unique<ZstdDecoder>(std::move(input));
    return std::make_unique<ReadAhead>(std::move(decoder), Check(subject, expected.decompressed));
}

}  // namespace slipway::image
