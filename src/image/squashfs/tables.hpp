// The tables of a squashfs: inodes, directories, fragments, owners, attributes, superblock.
#pragma once

#include <string>
#include <vector>

#include "output_file.hpp"
#include "placement.hpp"

namespace slipway::image::squashfs {

struct TableInput {
    const Tree& tree;
    const LiveTree& live;
    Placement placement;
    const std::vector<Pack>& packs;
    const SquashfsOptions& options;
    uint64_t data_start = 0;             ///< what begin_tables returned
    int64_t modified = 0;                ///< of the whole file system
    std::optional<int64_t> clamp_mtime;  ///< no file is newer
};

/// Write a placeholder superblock and the codec's options; returns where data may begin.
uint64_t begin_tables(OutputFile& output, const SquashfsOptions& options);
/// Write all tables after the data, the padding and the superblock. Adds a warning for each kind
/// of thing that the format cannot hold.
void write_tables(OutputFile& output, const TableInput& input, std::vector<std::string>& warnings);
/// Walk what was written. Throws: Error(invalid_image) when it cannot be read back as it was meant.
void verify_squashfs(int fd, const std::string& subject, uint32_t inodes);

}  // namespace slipway::image::squashfs
