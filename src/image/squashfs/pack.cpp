// A layer's entries in, compressed blocks and a journal out.
// Must not: decide what of the layer survives (tree.cpp does), nor keep file data in memory.
#include "pack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "block_pipeline.hpp"
#include "every_start.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image::squashfs {
namespace {

/// Cuts files into blocks; collects their tails in fragment blocks, each distinct tail once.
class Packer {
 public:
    Packer(EntrySource& source, BlockPipeline& pipeline, const SquashfsOptions& options,
           Progress* progress)
        : source_(source),
          pipeline_(pipeline),
          block_size_(options.block_size_bytes),
          progress_(progress) {
        tail_.resize(block_size_);
    }

    FileData pack_file(const Entry& entry) {
        FileData data;
        uint64_t left = entry.size_bytes;
        for (; left >= block_size_; left -= block_size_) {
            fill(pipeline_.buffer(), entry);
            const uint64_t number =
                pipeline_.submit(block_size_, BlockPipeline::Kind::data, entry.stored_raw);
            if (data.block_count++ == 0) data.first_block = number;
        }
        if (left > 0) add_tail(entry, static_cast<uint32_t>(left), data);
        return data;
    }

    void flush() {
        for (const bool raw : {false, true}) flush(raw);
    }

    std::vector<uint64_t> take_fragments() { return std::move(fragments_); }

 private:
    struct TailPlace {
        uint32_t fragment, offset;
    };
    /// A fragment block that is being filled: it gets its number with its first tail.
    struct Collected {
        std::vector<std::byte> bytes;
        uint32_t number = 0;
    };

    void flush(bool raw) {
        Collected& full = collected_[raw];
        if (full.bytes.empty()) return;
        const auto buffer = pipeline_.buffer();
        std::memcpy(buffer.data(), full.bytes.data(), full.bytes.size());
        fragments_[full.number] =
            pipeline_.submit(full.bytes.size(), BlockPipeline::Kind::fragment, raw);
        full.bytes.clear();
    }

    void fill(std::span<std::byte> buffer, const Entry& entry) {
        size_t got = 0;
        while (got < buffer.size()) {
            const size_t n = source_.read(buffer.data() + got, buffer.size() - got);
            if (n == 0)
                throw Error(ErrorKind::invalid_archive,
                            fmt::format("{} ends before its {} bytes", slipway::quoted(entry.path),
                                        entry.size_bytes))
                    .hint("fetch or build the layer again: it is cut off");
            got += n;
        }
        if (progress_ != nullptr) progress_->add(got);
    }

    void add_tail(const Entry& entry, uint32_t size, FileData& data) {
        const std::span<std::byte> tail(tail_.data(), size);
        fill(tail, entry);
        Sha256 sha;
        sha.update(tail.data(), size);
        const auto full = sha.finish_bytes();
        std::copy_n(full.begin(), data.tail_hash.size(), data.tail_hash.begin());
        data.tail_bytes = size;
        const auto known = tails_.find({data.tail_hash, size});
        if (known != tails_.end()) {
            data.fragment = known->second.fragment;
            data.fragment_offset = known->second.offset;
            return;
        }
        Collected& into = collected_[entry.stored_raw];
        if (into.bytes.size() + size > block_size_) flush(entry.stored_raw);
        if (into.bytes.empty()) {
            into.number = static_cast<uint32_t>(fragments_.size());
            fragments_.push_back(0);
        }
        data.fragment = into.number;
        data.fragment_offset = static_cast<uint32_t>(into.bytes.size());
        into.bytes.insert(into.bytes.end(), tail.begin(), tail.end());
        tails_[{data.tail_hash, size}] = {data.fragment, data.fragment_offset};
    }

    EntrySource& source_;
    BlockPipeline& pipeline_;
    const uint32_t block_size_;
    Progress* progress_;
    std::vector<std::byte> tail_;
    Collected collected_[2];  ///< to be compressed, and raw
    std::vector<uint64_t> fragments_;
    std::map<std::pair<Hash, uint32_t>, TailPlace> tails_;
};

}  // namespace

Pack pack_layer(EntrySource& source, UniqueFd file, const std::string& subject,
                const SquashfsOptions& options, Progress* progress) {
    Pack pack;
    pack.file = std::move(file);
    pack.subject = subject;
    BlockPipeline pipeline(pack.file.get(), subject, options);
    Packer packer(source, pipeline, options, progress);
    JournalEntry record;
    while (source.next(record.entry)) {
        record.data = {};
        record.entry.stored_raw |= is_read_at_every_start(record.entry.path);
        if (record.entry.type == EntryType::file) record.data = packer.pack_file(record.entry);
        pack.journal.push_back(std::move(record));
        record.entry = Entry{};
    }
    packer.flush();
    pack.fragments = packer.take_fragments();
    pack.blocks = pipeline.finish();
    measure_fragments(pack);
    return pack;
}

void measure_fragments(Pack& pack) {
    pack.fragment_bytes.assign(pack.fragments.size(), 0);
    for (const auto& [entry, data] : pack.journal) {
        if (data.tail_bytes == 0) continue;
        if (data.fragment >= pack.fragments.size() ||
            pack.fragments[data.fragment] >= pack.blocks.size())
            throw Error(ErrorKind::internal, "a pack's journal names a fragment that is not there");
        uint32_t& size = pack.fragment_bytes[data.fragment];
        size = std::max(size, data.fragment_offset + data.tail_bytes);
    }
}

}  // namespace slipway::image::squashfs
