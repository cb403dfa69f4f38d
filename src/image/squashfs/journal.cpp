// A pack's journal as bytes behind its blocks: blocks | journal | trailer.
// Must not: believe a journal whose digest does not match.
#include <endian.h>
#include <fmt/format.h>

#include <cstring>

#include "pack.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "superblock.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr char kMagic[8] = {'S', 'L', 'I', 'P', 'P', 'A', 'K', '1'};
constexpr size_t kTrailerBytes = 8 + 8 + 8 + 32;  // magic, journal's offset and size, SHA-256

class Encoder {
 public:
    std::string bytes;
    void u32(uint32_t value) {
        const uint32_t little = htole32(value);
        raw(&little, sizeof little);
    }
    void u64(uint64_t value) {
        const uint64_t little = htole64(value);
        raw(&little, sizeof little);
    }
    void text(const std::string& value) {
        u64(value.size());
        bytes += value;
    }
    void raw(const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); }
};

class Decoder {
 public:
    explicit Decoder(std::string_view bytes) : left_(bytes) {}
    uint32_t u32() { return le32(take(4)); }
    uint64_t u64() { return le64(take(8)); }
    std::string text() {
        const uint64_t size = u64();
        const char* at = take(size);
        return std::string(at, size);
    }
    const char* take(uint64_t size) {
        if (size > left_.size()) throw Error(ErrorKind::internal, "a pack's journal is cut off");
        const char* at = left_.data();
        left_.remove_prefix(size);
        return at;
    }

 private:
    std::string_view left_;
};

void encode_entry(Encoder& out, const JournalEntry& record) {
    const Entry& entry = record.entry;
    out.u32(static_cast<uint32_t>(entry.type));
    out.text(entry.path);
    for (const uint32_t value : {entry.mode, entry.uid, entry.gid}) out.u32(value);
    out.u64(static_cast<uint64_t>(entry.mtime));
    out.u64(entry.size_bytes);
    out.text(entry.link_target);
    out.u32(entry.device_major);
    out.u32(entry.device_minor);
    out.u64(entry.xattrs.size());
    for (const auto& [key, value] : entry.xattrs) {
        out.text(key);
        out.text(value);
    }
    const FileData& data = record.data;
    out.u64(data.first_block);
    out.u64(data.block_count);
    for (const uint32_t value : {data.fragment, data.fragment_offset, data.tail_bytes})
        out.u32(value);
    out.raw(data.tail_hash.data(), data.tail_hash.size());
}

JournalEntry decode_entry(Decoder& in) {
    JournalEntry record;
    Entry& entry = record.entry;
    entry.type = static_cast<EntryType>(in.u32());
    entry.path = in.text();
    entry.mode = in.u32();
    entry.uid = in.u32();
    entry.gid = in.u32();
    entry.mtime = static_cast<int64_t>(in.u64());
    entry.size_bytes = in.u64();
    entry.link_target = in.text();
    entry.device_major = in.u32();
    entry.device_minor = in.u32();
    for (uint64_t left = in.u64(); left > 0; --left) {
        std::string key = in.text();
        entry.xattrs[std::move(key)] = in.text();
    }
    FileData& data = record.data;
    data.first_block = in.u64();
    data.block_count = in.u64();
    data.fragment = in.u32();
    data.fragment_offset = in.u32();
    data.tail_bytes = in.u32();
    std::memcpy(data.tail_hash.data(), in.take(data.tail_hash.size()), data.tail_hash.size());
    return record;
}

std::string encode(const Pack& pack) {
    Encoder out;
    out.u64(pack.blocks.size());
    for (const PackBlock& block : pack.blocks) {
        out.u64(block.offset);
        out.u32(block.word);
        out.raw(block.hash.data(), block.hash.size());
    }
    out.u64(pack.fragments.size());
    for (const uint64_t number : pack.fragments) out.u64(number);
    out.u64(pack.journal.size());
    for (const JournalEntry& record : pack.journal) encode_entry(out, record);
    return std::move(out.bytes);
}

void decode(std::string_view bytes, Pack& pack) {
    Decoder in(bytes);
    for (uint64_t left = in.u64(); left > 0; --left) {
        PackBlock block;
        block.offset = in.u64();
        block.word = in.u32();
        std::memcpy(block.hash.data(), in.take(block.hash.size()), block.hash.size());
        pack.blocks.push_back(block);
    }
    for (uint64_t left = in.u64(); left > 0; --left) pack.fragments.push_back(in.u64());
    for (uint64_t left = in.u64(); left > 0; --left) pack.journal.push_back(decode_entry(in));
}

uint64_t data_bytes(const Pack& pack) {
    return pack.blocks.empty() ? 0 : pack.blocks.back().offset + pack.blocks.back().size_bytes();
}

}  // namespace

void save_journal(const Pack& pack) {
    const std::string journal = encode(pack);
    const uint64_t offset = data_bytes(pack);
    Encoder trailer;
    trailer.raw(kMagic, sizeof kMagic);
    trailer.u64(offset);
    trailer.u64(journal.size());
    Sha256 sha;
    sha.update(journal);
    const auto digest = sha.finish_bytes();
    trailer.raw(digest.data(), digest.size());
    sys::pwrite_all(pack.file.get(), journal.data(), journal.size(), offset, pack.subject);
    sys::pwrite_all(pack.file.get(), trailer.bytes.data(), trailer.bytes.size(),
                    offset + journal.size(), pack.subject);
}

std::optional<Pack> load_pack(UniqueFd file, const std::string& subject) {
    const auto size = static_cast<uint64_t>(sys::fstat(file.get(), subject).st_size);
    const auto read_at = [&](uint64_t offset, uint64_t bytes) {
        std::string text(bytes, '\0');
        size_t got = 0;
        while (got < bytes) {
            const size_t n =
                sys::pread(file.get(), text.data() + got, bytes - got, offset + got, subject);
            if (n == 0) break;
            got += n;
        }
        text.resize(got);
        return text;
    };
    if (size < kTrailerBytes) return std::nullopt;
    const std::string trailer = read_at(size - kTrailerBytes, kTrailerBytes);
    if (trailer.size() != kTrailerBytes || std::memcmp(trailer.data(), kMagic, sizeof kMagic) != 0)
        return std::nullopt;
    const uint64_t offset = le64(trailer.data() + 8), length = le64(trailer.data() + 16);
    if (offset > size || length > size || offset + length + kTrailerBytes != size)
        return std::nullopt;
    const std::string journal = read_at(offset, length);
    Sha256 sha;
    sha.update(journal);
    const auto digest = sha.finish_bytes();
    if (std::memcmp(digest.data(), trailer.data() + 24, digest.size()) != 0) return std::nullopt;
    Pack pack;
    decode(journal, pack);
    if (data_bytes(pack) != offset) return std::nullopt;
    measure_fragments(pack);
    pack.file = std::move(file);
    pack.subject = subject;
    pack.cached = true;
    return pack;
}

}  // namespace slipway::image::squashfs
