// A layer as compressed squashfs blocks and a journal of its entries: what the merge reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/entry.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image::squashfs {

/// The first 16 bytes of a SHA-256.
using Hash = std::array<std::byte, 16>;

inline constexpr uint32_t kNoFragment = 0xffffffff;
/// Set in a size word when the block is stored as it is.
inline constexpr uint32_t kStoredRaw = 1u << 24;
inline constexpr uint32_t kSizeMask = kStoredRaw - 1;

/// One block of a pack: where it lies, its size word as a squashfs holds it (0: a hole), and the
/// hash of word and bytes (a raw block may equal another file's compressed one: hence the word).
struct PackBlock {
    uint64_t offset = 0;
    uint32_t word = 0;
    Hash hash{};
    uint32_t size_bytes() const { return word & kSizeMask; }
};

/// Where a file's bytes are in its pack: whole blocks, then a tail inside a fragment block.
struct FileData {
    uint64_t first_block = 0;  ///< index into Pack::blocks
    uint64_t block_count = 0;
    uint32_t fragment = kNoFragment;  ///< index into Pack::fragments
    uint32_t fragment_offset = 0;
    uint32_t tail_bytes = 0;
    Hash tail_hash{};
};

struct JournalEntry {
    Entry entry;
    FileData data;
};

/// A layer, packed. `file` may be shared by nobody: packs are read at offsets only.
struct Pack {
    UniqueFd file;
    std::string subject;
    std::vector<PackBlock> blocks;         ///< data and fragment blocks, in order of position
    std::vector<uint64_t> fragments;       ///< those of `blocks` that are fragment blocks
    std::vector<uint32_t> fragment_bytes;  ///< of each of them, decoded: up to its last tail
    std::vector<JournalEntry> journal;
    bool cached = false;  ///< read from a file that lay somewhere: its blocks are not yet believed
};

/// The hash of a stored block: of its size word and its bytes.
Hash hash_block(uint32_t word, const std::byte* data);

/// Pack a layer into an empty open file.
/// Memory: two blocks for each of 2 x threads + 2 slots, and the journal (about 400 bytes an
/// entry). Blocks are in order of submission, so the bytes do not depend on `threads`.
Pack pack_layer(EntrySource& source, UniqueFd file, const std::string& subject,
                const SquashfsOptions& options, Progress* progress);

/// Fill in fragment_bytes from the journal. Throws: Error(internal) for one that fits no block.
void measure_fragments(Pack& pack);

/// Append the journal to a pack's file, so that load_pack can read it later.
void save_journal(const Pack& pack);
/// Read back a pack written by pack_layer and save_journal; std::nullopt when the file is not
/// whole (an older format, a damaged cache).
std::optional<Pack> load_pack(UniqueFd file, const std::string& subject);

}  // namespace slipway::image::squashfs
