// Which compressed blocks of which pack go where in the output: pure decisions, no data moved.
#pragma once

#include <cstdint>
#include <vector>

#include "tree.hpp"

namespace slipway::image::squashfs {

/// The live part of a tree, in the order in which its inodes are written: the children of a
/// directory together, sorted, after what lies below them; the root last.
struct LiveTree {
    struct Facts {
        uint32_t number = 0;  ///< inode number, from 1; 0: not live
        uint32_t links = 0;   ///< names; of a directory: subdirectories + 2
        NodeId first_name = 0;
    };
    std::vector<Facts> inodes;  ///< by InodeId
    uint32_t count = 0;
    int64_t newest_mtime = 0;
};
LiveTree plan_inodes(const Tree& tree);

/// The distinct ends of the live files that fill no block, and where the packs have them.
struct TailPlan {
    static constexpr uint32_t kNone = 0xffffffff;
    struct Tail {
        uint32_t pack = 0;
        uint32_t fragment = 0;  ///< index into Pack::fragments
        uint32_t offset = 0;    ///< in the fragment block, decoded
        uint32_t size_bytes = 0;
    };
    std::vector<Tail> tails;
    std::vector<uint32_t> of_file;  ///< by InodeId: index into `tails`, or kNone
    uint64_t duplicate_bytes = 0;
};
TailPlan plan_tails(const Tree& tree, const LiveTree& live);

/// A run of pack bytes to copy to the output, verbatim.
struct CopyRun {
    uint32_t pack = 0;
    uint64_t from = 0, to = 0, size_bytes = 0;
};

struct FragmentBlock {
    uint64_t position = 0;
    uint32_t word = 0;
};

/// Where a file's data is in the output.
struct FilePlace {
    uint64_t start = 0;
    uint32_t fragment = kNoFragment;
    uint32_t fragment_offset = 0;
    uint64_t sparse_bytes = 0;
};

struct Placement {
    std::vector<CopyRun> runs;             ///< in order of output position, coalesced
    std::vector<FragmentBlock> fragments;  ///< the fragment table
    std::vector<FilePlace> files;          ///< by InodeId; for live files
    uint64_t end = 0;                      ///< where the tables begin
    uint64_t input_bytes = 0;
    uint64_t duplicate_bytes = 0;
};
/// Place the live files' blocks after `start`: each distinct list of blocks and each fragment block
/// that holds one of the tails once, in pack order, so that the copy reads forward.
Placement plan_data(const Tree& tree, const LiveTree& live, const TailPlan& tails,
                    const std::vector<Pack>& packs, uint32_t block_size_bytes, uint64_t start);

}  // namespace slipway::image::squashfs
