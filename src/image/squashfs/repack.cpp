// Decodes fragment blocks that are mostly dead and packs what is alive of them anew.
// Must not: touch a block that is worth being copied as it is.
#include "repack.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "compressor.hpp"
#include "decompress.hpp"
#include "pack_check.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image::squashfs {
namespace {

const PackBlock& block_of(const TailPlan::Tail& tail, const std::vector<Pack>& packs) {
    const Pack& pack = packs[tail.pack];
    return pack.blocks[pack.fragments[tail.fragment]];
}

/// One fragment block at a time, read and decoded.
class BlockReader {
 public:
    BlockReader(const std::vector<Pack>& packs, const SquashfsOptions& options)
        : packs_(packs),
          codec_(static_cast<uint16_t>(codec_id(options.codec))),
          stored_(options.block_size_bytes),
          decoded_(options.block_size_bytes) {}

    /// What a tail holds, valid until the next call.
    const std::byte* find(const TailPlan::Tail& tail) {
        const PackBlock& block = block_of(tail, packs_);
        if (tail.pack != pack_ || block.offset != offset_) read(tail.pack, block);
        if (uint64_t{tail.offset} + tail.size_bytes > size_bytes_) throw DamagedPack{tail.pack};
        return decoded_.data() + tail.offset;
    }
    uint64_t blocks() const { return blocks_; }
    uint64_t stored_bytes() const { return stored_bytes_; }

 private:
    void read(uint32_t number, const PackBlock& block) {
        const Pack& pack = packs_[number];
        const size_t size = block.size_bytes();
        if (size > stored_.size()) throw DamagedPack{number};
        for (size_t got = 0; got < size;) {
            const size_t n = sys::pread(pack.file.get(), stored_.data() + got, size - got,
                                        block.offset + got, pack.subject);
            if (n == 0) throw DamagedPack{number};
            got += n;
        }
        if (pack.cached && hash_block(block.word, stored_.data()) != block.hash)
            throw DamagedPack{number};
        size_bytes_ = size;
        if ((block.word & kStoredRaw) != 0) {
            std::memcpy(decoded_.data(), stored_.data(), size);
        } else {
            const auto decoded =
                decompress(codec_, stored_.data(), size, decoded_.data(), decoded_.size());
            if (!decoded) throw DamagedPack{number};
            size_bytes_ = *decoded;
        }
        pack_ = number;
        offset_ = block.offset;
        ++blocks_;
        stored_bytes_ += size;
    }

    const std::vector<Pack>& packs_;
    const uint16_t codec_;
    std::vector<std::byte> stored_, decoded_;
    size_t size_bytes_ = 0;
    uint32_t pack_ = 0xffffffff;
    uint64_t offset_ = 0;
    uint64_t blocks_ = 0, stored_bytes_ = 0;
};

/// The tails of a plan as the files of a layer: each is shorter than a block, so that packing them
/// makes fragment blocks and nothing else.
class TailSource : public EntrySource {
 public:
    TailSource(const RepackPlan& plan, const TailPlan& tails, const std::vector<Pack>& packs,
               BlockReader& reader)
        : plan_(plan), tails_(tails), packs_(packs), reader_(reader) {}

    bool next(Entry& entry) override {
        if (next_ == plan_.size()) return false;
        const TailPlan::Tail& tail = tails_.tails[plan_[next_++]];
        entry = {};
        entry.size_bytes = tail.size_bytes;
        entry.stored_raw = (block_of(tail, packs_).word & kStoredRaw) != 0;
        data_ = reader_.find(tail);
        left_ = tail.size_bytes;
        return true;
    }
    size_t read(void* data, size_t size_bytes) override {
        const size_t part = std::min(size_bytes, left_);
        std::memcpy(data, data_, part);
        data_ += part;
        left_ -= part;
        return part;
    }

 private:
    const RepackPlan& plan_;
    const TailPlan& tails_;
    const std::vector<Pack>& packs_;
    BlockReader& reader_;
    size_t next_ = 0;
    const std::byte* data_ = nullptr;
    size_t left_ = 0;
};

}  // namespace

RepackPlan plan_repack(const TailPlan& tails, const std::vector<Pack>& packs) {
    std::vector<std::vector<uint64_t>> alive(packs.size());
    for (size_t i = 0; i < packs.size(); ++i) alive[i].resize(packs[i].fragments.size());
    for (const TailPlan::Tail& tail : tails.tails)
        alive[tail.pack][tail.fragment] += tail.size_bytes;
    RepackPlan plan;
    for (uint32_t i = 0; i < tails.tails.size(); ++i) {
        const TailPlan::Tail& tail = tails.tails[i];
        if (2 * alive[tail.pack][tail.fragment] < packs[tail.pack].fragment_bytes[tail.fragment])
            plan.push_back(i);
    }
    const auto place = [&](uint32_t index) {
        const TailPlan::Tail& tail = tails.tails[index];
        return std::tuple(tail.pack, block_of(tail, packs).offset, tail.offset);
    };
    std::sort(plan.begin(), plan.end(),
              [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
    return plan;
}

RepackReport repack_fragments(const RepackPlan& plan, TailPlan& tails, std::vector<Pack>& packs,
                              const PackCache& cache, const SquashfsOptions& options) {
    if (plan.empty()) return {};
    BlockReader reader(packs, options);
    TailSource source(plan, tails, packs, reader);
    Pack gathered =
        pack_layer(source, cache.unnamed_file(), "the repacked fragments", options, nullptr);
    for (size_t i = 0; i < plan.size(); ++i) {
        const FileData& data = gathered.journal[i].data;
        tails.tails[plan[i]] = {static_cast<uint32_t>(packs.size()), data.fragment,
                                data.fragment_offset, data.tail_bytes};
    }
    gathered.journal.clear();
    RepackReport report{reader.blocks(), 0, 0};
    for (const PackBlock& block : gathered.blocks) report.written_bytes += block.size_bytes();
    report.saved_bytes =
        reader.stored_bytes() - std::min(reader.stored_bytes(), report.written_bytes);
    packs.push_back(std::move(gathered));
    return report;
}

}  // namespace slipway::image::squashfs
