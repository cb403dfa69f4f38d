// Are the blocks that will be copied what their pack says? Asked of packs that lay in a cache.
// Must not: change a pack, or hold more than a piece of one for each thread.
#include "pack_check.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

/// Neighbouring blocks of a pack, read at once.
struct Piece {
    uint32_t pack = 0;
    size_t first = 0, last = 0;  ///< blocks, the last excluded
    uint64_t size_bytes = 0;
};

void add_pieces(const Pack& pack, const CopyRun& run, std::vector<Piece>& pieces) {
    const auto begin = std::lower_bound(
        pack.blocks.begin(), pack.blocks.end(), run.from,
        [](const PackBlock& block, uint64_t offset) { return block.offset < offset; });
    Piece piece{run.pack, static_cast<size_t>(begin - pack.blocks.begin()), 0, 0};
    for (size_t i = piece.first;
         i < pack.blocks.size() && pack.blocks[i].offset < run.from + run.size_bytes; ++i) {
        if (piece.size_bytes > 0 && piece.size_bytes + pack.blocks[i].size_bytes() > kPieceBytes) {
            pieces.push_back(piece);
            piece = {run.pack, i, 0, 0};
        }
        piece.size_bytes += pack.blocks[i].size_bytes();
        piece.last = i + 1;
    }
    if (piece.size_bytes > 0) pieces.push_back(piece);
}

bool is_whole(const Pack& pack, const Piece& piece, std::vector<std::byte>& buffer) {
    buffer.resize(std::max<size_t>(buffer.size(), piece.size_bytes));
    const uint64_t start = pack.blocks[piece.first].offset;
    size_t got = 0;
    while (got < piece.size_bytes) {
        const size_t n = sys::pread(pack.file.get(), buffer.data() + got, piece.size_bytes - got,
                                    start + got, pack.subject);
        if (n == 0) return false;
        got += n;
    }
    for (size_t i = piece.first; i < piece.last; ++i) {
        const PackBlock& block = pack.blocks[i];
        if (block.word != 0 &&
            hash_block(block.word, buffer.data() + (block.offset - start)) != block.hash)
            return false;
    }
    return true;
}

}  // namespace

std::optional<uint32_t> find_damaged_pack(const Placement& placement,
                                          const std::vector<Pack>& packs, unsigned threads) {
    std::vector<Piece> pieces;
    for (const CopyRun& run : placement.runs)
        if (packs[run.pack].cached) add_pieces(packs[run.pack], run, pieces);
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::optional<uint32_t> damaged;
    std::exception_ptr failure;
    const auto work = [&] {
        std::vector<std::byte> buffer;
        try {
            for (size_t i = next++; i < pieces.size(); i = next++) {
                if (is_whole(packs[pieces[i].pack], pieces[i], buffer)) continue;
                const std::lock_guard lock(mutex);
                damaged = std::min(damaged.value_or(pieces[i].pack), pieces[i].pack);
                next = pieces.size();
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            next = pieces.size();
        }
    };
    {
        std::vector<std::jthread> helpers;
        for (unsigned i = 1; i < std::min<size_t>(threads, pieces.size()); ++i)
            helpers.emplace_back(work);
        work();
    }
    if (failure) std::rethrow_exception(failure);
    return damaged;
}

}  // namespace slipway::image::squashfs
