// One squashfs from layers: pack each, replay the journals, gather what is alive of fragment blocks
// that are mostly dead, copy the live blocks, write tables.
// Must not: unpack anything to disk, or leave a file behind when it fails.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>

#include "../added_files.hpp"
#include "block_pipeline.hpp"
#include "output_file.hpp"
#include "pack.hpp"
#include "pack_cache.hpp"
#include "pack_check.hpp"
#include "placement.hpp"
#include "repack.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"
#include "tables.hpp"
#include "tree.hpp"

namespace slipway::image {
namespace {

using namespace squashfs;

void check_options(const SquashfsOptions& options) {
    if (!std::has_single_bit(options.block_size_bytes) || options.block_size_bytes < 4096 ||
        options.block_size_bytes > (1u << 20))
        throw Error(ErrorKind::usage,
                    fmt::format("{} is no squashfs block size", options.block_size_bytes))
            .hint("give a power of two from 4096 to 1048576");
}

int64_t newest_mtime(const std::vector<Pack>& packs) {
    int64_t newest = 0;
    for (const Pack& pack : packs)
        for (const JournalEntry& record : pack.journal)
            newest = std::max(newest, record.entry.mtime);
    return newest;
}

/// Finds the packs that are cached and makes the others, base first; the configuration last.
class PackMaker {
 public:
    PackMaker(const std::vector<LayerInput>& layers, const std::string& output,
              const SquashfsOptions& options, const std::set<uint32_t>& damaged)
        : layers_(layers), cache_(output, options) {
        for (uint32_t i = 0; i < layers.size(); ++i)
            found_.push_back(damaged.contains(i) ? std::nullopt : cache_.find(layers[i]));
    }

    std::vector<Pack> make() {
        Progress progress("squashfs: packing layers", bytes_to_read(), Progress::Unit::bytes);
        std::vector<Pack> packs;
        for (uint32_t i = 0; i < layers_.size(); ++i)
            packs.push_back(found_[i] ? std::move(*found_[i])
                                      : cache_.make(layers_[i], i, &progress));
        progress.finish();
        cache_.trim();
        return packs;
    }

    const PackCache& cache() const { return cache_; }

 private:
    /// Of all that is not cached; 0 if that cannot be said.
    uint64_t bytes_to_read() const {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < layers_.size(); ++i) {
            if (found_[i]) continue;
            if (layers_[i].size_bytes == 0) return 0;
            sum += layers_[i].size_bytes;
        }
        return sum;
    }

    const std::vector<LayerInput>& layers_;
    PackCache cache_;
    std::vector<std::optional<Pack>> found_;
};

/// Replay the layers, base first; what we add ourselves comes last.
void apply_layers(std::vector<Pack>& packs, const ImageConfig& config, const std::string& output,
                  const PackCache& cache, const SquashfsOptions& options, Tree& tree) {
    const int64_t newest = options.source_date_epoch.value_or(newest_mtime(packs));
    for (uint32_t i = 0; i < packs.size(); ++i) tree.apply_layer(std::move(packs[i].journal), i);

    const auto added = stream_added_files(
        plan_added_files(config, options.source, [&tree](const std::string& path) {
            const auto node = tree.find(path);
            if (!node) return There::nothing;
            return tree.inode_of(*node).entry.type == EntryType::directory ? There::directory
                                                                           : There::other;
        }));
    packs.push_back(pack_layer(*added, cache.unnamed_file(), output, options, nullptr));
    for (JournalEntry& record : packs.back().journal) record.entry.mtime = newest;
    tree.apply_layer(std::move(packs.back().journal), static_cast<uint32_t>(packs.size() - 1));
}

/// The disk begins to write each piece at once: there is less to wait for at the end.
void copy_runs(const Placement& placement, const std::vector<Pack>& packs, OutputFile& output) {
    constexpr uint64_t kPieceBytes = 16 << 20;
    Progress progress("squashfs: copying blocks", placement.end, Progress::Unit::bytes);
    for (const CopyRun& run : placement.runs) {
        for (uint64_t done = 0; done < run.size_bytes; done += kPieceBytes) {
            const uint64_t part = std::min(kPieceBytes, run.size_bytes - done);
            copy_bytes(packs[run.pack].file.get(), run.from + done, output.fd(), run.to + done,
                       part, output.path());
            ::sync_file_range(output.fd(), static_cast<off64_t>(run.to + done),
                              static_cast<off64_t>(part), SYNC_FILE_RANGE_WRITE);
            progress.add(part);
        }
    }
    output.set_size(placement.end);
    progress.finish();
}

SquashfsReport write_once(const std::vector<LayerInput>& layers, const ImageConfig& config,
                          const std::string& output, const SquashfsOptions& options,
                          const std::set<uint32_t>& damaged) {
    OutputFile file(output);
    PackMaker maker(layers, output, options, damaged);
    std::vector<Pack> packs = maker.make();
    Tree tree;
    apply_layers(packs, config, output, maker.cache(), options, tree);
    const LiveTree live = plan_inodes(tree);
    TailPlan tails = plan_tails(tree, live);
    const RepackReport repacked =
        repack_fragments(plan_repack(tails, packs), tails, packs, maker.cache(), options);

    TableInput input{tree, live, {}, packs, options};
    input.data_start = begin_tables(file, options);
    input.placement =
        plan_data(tree, live, tails, packs, options.block_size_bytes, input.data_start);
    input.modified = options.source_date_epoch.value_or(live.newest_mtime);
    input.clamp_mtime = options.source_date_epoch;
    if (const auto number = find_damaged_pack(input.placement, packs, thread_count(options)))
        throw DamagedPack{*number};
    copy_runs(input.placement, packs, file);

    SquashfsReport report;
    write_tables(file, input, report.warnings);
    verify_squashfs(file.fd(), output, live.count);
    file.commit();
    report.inodes = live.count;
    report.input_bytes = input.placement.input_bytes;
    report.duplicate_bytes = input.placement.duplicate_bytes;
    report.output_bytes = file.size_bytes();
    report.packed_bytes = maker.cache().packed_bytes() + repacked.written_bytes;
    report.repacked_blocks = repacked.blocks;
    report.saved_bytes = repacked.saved_bytes;
    return report;
}

}  // namespace

SquashfsReport write_squashfs(const std::vector<LayerInput>& layers, const ImageConfig& config,
                              const std::string& output, const SquashfsOptions& options) {
    check_options(options);
    std::set<uint32_t> damaged;
    for (;;) {
        try {
            return write_once(layers, config, output, options, damaged);
        } catch (const DamagedPack& pack) {
            // Once packed anew it is not asked for again, so that this ends: what we have written
            // ourselves is damaged by the disk.
            if (pack.number >= layers.size() || damaged.contains(pack.number))
                throw Error(ErrorKind::io, "what was just packed reads back as something else")
                    .note(fmt::format("while writing {}", slipway::quoted(output)))
                    .hint("check the disk; choose another directory with TMPDIR or SLIPWAY_STORE");
            log::verbose("the pack of layer {} in the store is damaged: packing it again",
                         pack.number + 1);
            damaged.insert(pack.number);
        }
    }
}

SquashfsReport write_squashfs(const std::vector<LayerOpener>& layers, const ImageConfig& config,
                              const std::string& output, const SquashfsOptions& options) {
    std::vector<LayerInput> inputs;
    for (const LayerOpener& open : layers)
        inputs.push_back({"", [&open](Progress*) { return open(); }, 0});
    return write_squashfs(inputs, config, output, options);
}

}  // namespace slipway::image
