// The cache of decompressed metadata blocks.
// Must not: grow beyond its bound, or follow a chain past the end of the file system.
#include "metadata.hpp"

#include <fmt/format.h>

#include <cstring>
#include <mutex>

#include "decompress.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr size_t kMostBlocks = 8192;  // 64 MiB; a tree of 50,000 files has about 600
constexpr uint16_t kStoredAsIs = 0x8000;

}  // namespace

Metadata::Ptr Metadata::get(uint64_t position) {
    {
        const std::shared_lock lock(mutex_);
        const auto found = blocks_.find(position);
        if (found != blocks_.end()) return found->second;
    }
    Ptr block = load(position);
    const std::unique_lock lock(mutex_);
    if (blocks_.size() >= kMostBlocks) blocks_.erase(blocks_.begin());
    return blocks_.try_emplace(position, std::move(block)).first->second;
}

Metadata::Ptr Metadata::load(uint64_t position) const {
    uint8_t raw[2 + 8192];
    if (position >= super_.bytes_used || super_.bytes_used - position < 3)
        throw damaged(subject_, "its metadata lead outside the file");
    const size_t want = std::min<uint64_t>(sizeof raw, super_.bytes_used - position);
    size_t got = 0;
    while (got < want) {
        const size_t n = file_.read(raw + got, want - got, position + got, subject_);
        if (n == 0) throw damaged(subject_, "the file became shorter while it was read");
        got += n;
    }
    const uint16_t header = le16(raw);
    const size_t size = header & ~kStoredAsIs;
    if (size == 0 || size > 8192 || 2 + size > want)
        throw damaged(subject_, fmt::format("bad metadata block at {}", position));
    auto block = std::make_shared<Block>();
    if (header & kStoredAsIs) {
        std::memcpy(block->data.data(), raw + 2, size);
        block->size_bytes = static_cast<uint32_t>(size);
    } else {
        const auto plain =
            decompress(super_.codec, raw + 2, size, block->data.data(), block->data.size());
        if (!plain || *plain == 0)
            throw damaged(subject_, fmt::format("bad metadata block at {}", position));
        block->size_bytes = static_cast<uint32_t>(*plain);
    }
    block->next = position + 2 + size;
    return block;
}

void Metadata::read(MetadataCursor& cursor, void* data, size_t size_bytes) {
    auto* to = static_cast<uint8_t*>(data);
    while (size_bytes > 0) {
        const Ptr block = get(cursor.block);
        if (cursor.offset > block->size_bytes)
            throw damaged(subject_, fmt::format("bad offset in block {}", cursor.block));
        const size_t part = std::min<size_t>(size_bytes, block->size_bytes - cursor.offset);
        if (to != nullptr && part > 0) {
            std::memcpy(to, block->data.data() + cursor.offset, part);
            to += part;
        }
        size_bytes -= part;
        cursor.offset += static_cast<uint32_t>(part);
        if (size_bytes > 0) cursor = {block->next, 0};
    }
}

}  // namespace slipway::image::squashfs
