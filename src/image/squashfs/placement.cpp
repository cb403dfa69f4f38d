// Numbers for the live inodes, and places for the live blocks.
// Must not: read or write any file.
#include "placement.hpp"

#include <algorithm>
#include <map>

#include "slipway/base/digest.hpp"

namespace slipway::image::squashfs {
namespace {

using TailKey = std::pair<Hash, uint32_t>;

/// What two files share when all their whole blocks are the same.
std::array<std::byte, 32> hash_list(const Pack& pack, const FileData& data) {
    Sha256 sha;
    for (uint64_t i = 0; i < data.block_count; ++i) {
        const PackBlock& block = pack.blocks[data.first_block + i];
        sha.update(&block.word, sizeof block.word);
        sha.update(block.hash.data(), block.hash.size());
    }
    return sha.finish_bytes();
}

class Numbering {
 public:
    Numbering(const Tree& tree, LiveTree& live) : tree_(tree), live_(live) {}

    void below(NodeId directory) {
        uint32_t subdirectories = 0;
        for (const auto& [name, child] : tree_.node(directory).children) {
            if (tree_.inode_of(child).entry.type != EntryType::directory) continue;
            ++subdirectories;
            below(child);
        }
        for (const auto& [name, child] : tree_.node(directory).children) count(child);
        live_.inodes[tree_.node(directory).inode].links = subdirectories + 2;
    }

    void count(NodeId id) {
        const Node& node = tree_.node(id);
        LiveTree::Facts& facts = live_.inodes[node.inode];
        if (facts.number == 0) {
            facts.number = ++live_.count;
            facts.first_name = id;
            live_.newest_mtime = std::max(live_.newest_mtime, tree_.inode(node.inode).entry.mtime);
        }
        if (tree_.inode(node.inode).entry.type != EntryType::directory) ++facts.links;
    }

 private:
    const Tree& tree_;
    LiveTree& live_;
};

struct Run {
    uint32_t pack;
    uint64_t offset, size_bytes;
    InodeId inode;     // of a file's blocks
    int64_t fragment;  // index of a fragment block, or -1
};

}  // namespace

LiveTree plan_inodes(const Tree& tree) {
    LiveTree live;
    live.inodes.resize(tree.inode_count());
    Numbering numbering(tree, live);
    numbering.below(tree.root());
    numbering.count(tree.root());
    return live;
}

TailPlan plan_tails(const Tree& tree, const LiveTree& live) {
    TailPlan plan;
    plan.of_file.assign(tree.inode_count(), TailPlan::kNone);
    std::map<TailKey, uint32_t> known;
    for (InodeId id = 0; id < tree.inode_count(); ++id) {
        const Inode& inode = tree.inode(id);
        const FileData& data = inode.data;
        if (live.inodes[id].number == 0 || data.tail_bytes == 0) continue;
        const auto next = static_cast<uint32_t>(plan.tails.size());
        const auto [place, fresh] = known.try_emplace({data.tail_hash, data.tail_bytes}, next);
        plan.of_file[id] = place->second;
        if (fresh)
            plan.tails.push_back(
                {inode.pack, data.fragment, data.fragment_offset, data.tail_bytes});
        else
            plan.duplicate_bytes += data.tail_bytes;
    }
    return plan;
}

namespace {

/// Chooses one copy of each distinct block list and fragment block.
class Placer {
 public:
    Placer(const Tree& tree, const LiveTree& live, const TailPlan& tails,
           const std::vector<Pack>& packs, uint32_t block_size)
        : tree_(tree), live_(live), tails_(tails), packs_(packs), block_size_(block_size) {}

    Placement place(uint64_t start) {
        placement_.files.resize(tree_.inode_count());
        for (InodeId id = 0; id < tree_.inode_count(); ++id) {
            const Inode& inode = tree_.inode(id);
            if (live_.inodes[id].number == 0 || inode.entry.type != EntryType::file) continue;
            placement_.input_bytes += inode.entry.size_bytes;
            choose_blocks(id, inode);
        }
        choose_fragments();
        lay_out(start);
        for (const auto& [twin, first] : twins_)
            placement_.files[twin].start = placement_.files[first].start;
        for (InodeId id = 0; id < tree_.inode_count(); ++id) {
            const uint32_t tail = tails_.of_file[id];
            if (tail == TailPlan::kNone) continue;
            placement_.files[id].fragment = fragment_index_[fragment_of_[tail]];
            placement_.files[id].fragment_offset = tails_.tails[tail].offset;
        }
        return std::move(placement_);
    }

 private:
    void choose_blocks(InodeId id, const Inode& inode) {
        if (inode.data.block_count == 0) return;
        const Pack& pack = packs_[inode.pack];
        uint64_t stored = 0, holes = 0, first = 0;
        for (uint64_t i = 0; i < inode.data.block_count; ++i) {
            const PackBlock& block = pack.blocks[inode.data.first_block + i];
            if (stored == 0) first = block.offset;
            stored += block.size_bytes();
            if (block.word == 0) ++holes;
        }
        placement_.files[id].sparse_bytes = holes * block_size_;
        const auto [known, fresh] = lists_.try_emplace(hash_list(pack, inode.data), id);
        if (fresh) {
            runs_.push_back({inode.pack, first, stored, id, -1});
        } else {
            twins_.emplace_back(id, known->second);
            placement_.duplicate_bytes += inode.data.block_count * block_size_;
        }
    }

    void choose_fragments() {
        placement_.duplicate_bytes += tails_.duplicate_bytes;
        for (const TailPlan::Tail& tail : tails_.tails)
            fragment_of_.push_back(number_of(tail.pack, tail.fragment));
    }

    /// The number of a fragment block among those that are chosen.
    size_t number_of(uint32_t pack, uint32_t ordinal) {
        const PackBlock& block = packs_[pack].blocks[packs_[pack].fragments[ordinal]];
        const auto [known, fresh] = fragments_.try_emplace(block.hash, chosen_.size());
        if (fresh) {
            runs_.push_back(
                {pack, block.offset, block.size_bytes(), 0, static_cast<int64_t>(chosen_.size())});
            chosen_.push_back(block.word);
        }
        return known->second;
    }

    void lay_out(uint64_t start) {
        std::stable_sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) {
            return std::pair(a.pack, a.offset) < std::pair(b.pack, b.offset);
        });
        fragment_index_.resize(chosen_.size());
        uint64_t position = start;
        for (const Run& run : runs_) {
            if (run.fragment < 0) {
                placement_.files[run.inode].start = position;
            } else {
                fragment_index_[run.fragment] = static_cast<uint32_t>(placement_.fragments.size());
                placement_.fragments.push_back({position, chosen_[run.fragment]});
            }
            if (run.size_bytes == 0) continue;
            auto& copies = placement_.runs;
            if (!copies.empty() && copies.back().pack == run.pack &&
                copies.back().from + copies.back().size_bytes == run.offset)
                copies.back().size_bytes += run.size_bytes;
            else
                copies.push_back({run.pack, run.offset, position, run.size_bytes});
            position += run.size_bytes;
        }
        placement_.end = position;
    }

    const Tree& tree_;
    const LiveTree& live_;
    const TailPlan& tails_;
    const std::vector<Pack>& packs_;
    const uint32_t block_size_;
    Placement placement_;
    std::vector<Run> runs_;
    std::map<std::array<std::byte, 32>, InodeId> lists_;
    std::vector<std::pair<InodeId, InodeId>> twins_;
    std::map<Hash, size_t> fragments_;
    std::vector<uint32_t> chosen_;     // size words
    std::vector<size_t> fragment_of_;  // by tail: index into chosen_
    std::vector<uint32_t> fragment_index_;
};

}  // namespace

Placement plan_data(const Tree& tree, const LiveTree& live, const TailPlan& tails,
                    const std::vector<Pack>& packs, uint32_t block_size_bytes, uint64_t start) {
    return Placer(tree, live, tails, packs, block_size_bytes).place(start);
}

}  // namespace slipway::image::squashfs
