// Owners, attributes, fragments and file data of a squashfs.
// Must not: allocate by a size that the file claims and does not have.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "decompress.hpp"
#include "reader.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr uint32_t kStoredAsIs = 1u << 24;
constexpr uint32_t kNone = 0xffffffff;
constexpr size_t kMapStep = 2048;  // blocks between two known places of a large file
constexpr size_t kMostMaps = 256;
constexpr uint64_t kMostTablesAhead = 16 << 20;
constexpr size_t kLargestXattr = 65536;  // XATTR_SIZE_MAX and XATTR_LIST_MAX of the kernel
constexpr uint32_t kMostXattrs = 65536 / 8;
constexpr uint16_t kElsewhere = 256;

void read_exactly(const ImageFile& file, void* data, size_t size, uint64_t offset,
                  const std::string& subject) {
    auto* to = static_cast<uint8_t*>(data);
    while (size > 0) {
        const size_t n = file.read(to, size, offset, subject);
        if (n == 0) throw damaged(subject, "the file became shorter while it was read");
        to += n;
        offset += n;
        size -= n;
    }
}

/// A table's list of metadata blocks.
std::vector<uint64_t> read_index(const ImageFile& file, uint64_t start, uint64_t entries,
                                 size_t each, const Superblock& super, const std::string& subject) {
    const uint64_t count = (entries * each + 8191) / 8192;
    if (start > super.bytes_used || count * 8 > super.bytes_used - start)
        throw damaged(subject, "a table lies outside the file");
    std::vector<uint8_t> raw(count * 8);
    read_exactly(file, raw.data(), raw.size(), start, subject);
    std::vector<uint64_t> index(count);
    for (size_t i = 0; i < count; ++i) index[i] = le64(raw.data() + i * 8);
    return index;
}

}  // namespace

/// Known places of a large file, one every kMapStep blocks, found in order.
struct ImageReader::FileMap {
    struct Place {
        MetadataCursor list;
        uint64_t position;
    };
    std::mutex mutex;
    std::vector<Place> places;
};

void ImageReader::load_ids() {
    const auto index = read_index(file_, super_.id_table, super_.ids, 4, super_, subject_);
    std::vector<uint8_t> raw(super_.ids * 4u);
    for (size_t i = 0; i < index.size(); ++i) {
        MetadataCursor cursor{index[i], 0};
        metadata_.read(cursor, raw.data() + i * 8192,
                       std::min<size_t>(8192, raw.size() - i * 8192));
    }
    ids_.resize(super_.ids);
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = le32(raw.data() + i * 4);
    if (super_.fragments > 0)
        fragment_index_ =
            read_index(file_, super_.fragment_table, super_.fragments, 16, super_, subject_);
}

void ImageReader::load_xattr_ids() {
    if (super_.xattr_table == kNoTable) return;
    uint8_t head[16];
    read_exactly(file_, head, sizeof head, super_.xattr_table, subject_);
    xattr_start_ = le64(head);
    xattr_ids_ = le32(head + 8);
    xattr_index_ = read_index(file_, super_.xattr_table + 16, xattr_ids_, 16, super_, subject_);
}

std::string ImageReader::xattr_value(MetadataCursor& cursor, bool elsewhere) const {
    uint8_t raw[8];
    metadata_.read(cursor, raw, 4);
    uint32_t size = le32(raw);
    MetadataCursor at = cursor;
    if (elsewhere) {
        if (size != 8) throw damaged(subject_, "an extended attribute has a bad reference");
        metadata_.read(cursor, raw, 8);
        at = {xattr_start_ + (le64(raw) >> 16), static_cast<uint32_t>(le64(raw) & 0xffff)};
        metadata_.read(at, raw, 4);
        size = le32(raw);
    }
    if (size > kLargestXattr) throw damaged(subject_, "an extended attribute is too large");
    std::string value(size, '\0');
    metadata_.read(at, value.data(), value.size());
    if (!elsewhere) cursor = at;
    return value;
}

std::map<std::string, std::string> ImageReader::xattrs(const InodeInfo& inode) const {
    std::map<std::string, std::string> found;
    if (inode.xattr == kNone || xattr_ids_ == 0) return found;
    if (inode.xattr >= xattr_ids_) throw damaged(subject_, "an inode has unknown attributes");
    uint8_t raw[16];
    MetadataCursor cursor{xattr_index_[inode.xattr / 512], inode.xattr % 512 * 16};
    metadata_.read(cursor, raw, sizeof raw);
    const uint32_t count = le32(raw + 8);
    if (count > kMostXattrs) throw damaged(subject_, "an inode has too many attributes");
    cursor = {xattr_start_ + (le64(raw) >> 16), static_cast<uint32_t>(le64(raw) & 0xffff)};
    size_t total = 0;
    for (uint32_t i = 0; i < count; ++i) {
        metadata_.read(cursor, raw, 4);
        const uint16_t type = le16(raw), size = le16(raw + 2);
        constexpr const char* prefixes[] = {"user.", "trusted.", "security."};
        if ((type & 0xff) >= std::size(prefixes) || size > 255)
            throw damaged(subject_, "an extended attribute has a bad name");
        std::string name(size, '\0');
        metadata_.read(cursor, name.data(), name.size());
        std::string value = xattr_value(cursor, type & kElsewhere);
        total += name.size() + value.size();
        if (total > 16 * kLargestXattr)
            throw damaged(subject_, "an inode's attributes are too large");
        found.emplace(prefixes[type & 0xff] + name, std::move(value));
    }
    return found;
}

ImageReader::BlockPlace ImageReader::fragment(uint32_t index) const {
    if (index >= super_.fragments) throw damaged(subject_, "a file has an unknown fragment");
    uint8_t raw[16];
    MetadataCursor cursor{fragment_index_[index / 512], index % 512 * 16};
    metadata_.read(cursor, raw, sizeof raw);
    return {le64(raw), le32(raw + 8)};
}

/// A sealed image is checked block by block: those are kept.
bool ImageReader::is_plain(const BlockPlace& place) const {
    return (place.word & kStoredAsIs) != 0 && !file_.sealed;
}

size_t ImageReader::stored_size(const BlockPlace& place) const {
    const size_t size = place.word & (kStoredAsIs - 1);
    if (size == 0 || size > super_.block_size || place.position > super_.bytes_used ||
        size > super_.bytes_used - place.position)
        throw damaged(subject_, fmt::format("bad data block at {}", place.position));
    return size;
}

/// Bytes [offset, offset + size) of a block.
Piece ImageReader::piece(const BlockPlace& place, size_t offset, size_t size_bytes) const {
    if (!is_plain(place)) return {block(place, offset + size_bytes), offset, size_bytes};
    const size_t stored = stored_size(place);
    if (stored < offset + size_bytes) throw too_short(place);
    disk_ahead_.will_read(place.position + offset, size_bytes, super_.bytes_used);
    auto read = std::make_shared<Block>();
    read->data.reset(new uint8_t[size_bytes]);
    read->size_bytes = size_bytes;
    read_exactly(file_, read->data.get(), size_bytes, place.position + offset, subject_);
    return {std::move(read), 0, size_bytes};
}

Error ImageReader::too_short(const BlockPlace& place) const {
    return damaged(subject_, fmt::format("data block at {} is too short", place.position));
}

BlockPtr ImageReader::block(const BlockPlace& place, size_t at_least_bytes) const {
    const size_t size = stored_size(place);
    BlockPtr found = blocks_.get(place.position, [&] {
        disk_ahead_.will_read(place.position, size, super_.bytes_used);
        auto loaded = std::make_shared<Block>();
        loaded->data.reset(new uint8_t[super_.block_size]);
        if (place.word & kStoredAsIs) {
            read_exactly(file_, loaded->data.get(), size, place.position, subject_);
            loaded->size_bytes = size;
            return BlockPtr(loaded);
        }
        thread_local std::vector<uint8_t> packed;
        packed.resize(super_.block_size);
        read_exactly(file_, packed.data(), size, place.position, subject_);
        const auto plain =
            decompress(super_.codec, packed.data(), size, loaded->data.get(), super_.block_size);
        if (!plain)
            throw damaged(subject_,
                          fmt::format("data block at {} cannot be decompressed", place.position));
        loaded->size_bytes = *plain;
        return BlockPtr(loaded);
    });
    if (found->size_bytes < at_least_bytes) throw too_short(place);
    return found;
}

void ImageReader::read_tables_ahead() const {
    file_.read_ahead(super_.inode_table,
                     std::min(super_.bytes_used - super_.inode_table, kMostTablesAhead));
}

void ImageReader::read_disk_ahead(const InodeInfo& file, uint64_t size_bytes) const {
    const uint64_t count = std::min(block_count(file), size_bytes / super_.block_size + 1);
    const auto places = locate(file, 0, count);
    if (places.empty()) return;
    const uint64_t end = places.back().position + (places.back().word & (kStoredAsIs - 1));
    file_.read_ahead(places.front().position, end - places.front().position);
}

uint64_t ImageReader::block_count(const InodeInfo& file) const {
    const uint64_t whole = file.size_bytes / super_.block_size;
    return file.fragment == kNone && file.size_bytes % super_.block_size != 0 ? whole + 1 : whole;
}

std::vector<ImageReader::BlockPlace> ImageReader::locate(const InodeInfo& file, uint64_t first,
                                                         size_t count) const {
    FileMap::Place at{file.tail, file.start};
    uint64_t number = 0;
    std::vector<uint8_t> words;
    const auto advance = [&](size_t blocks, std::vector<BlockPlace>* places) {
        words.resize(blocks * 4);
        metadata_.read(at.list, words.data(), words.size());
        for (size_t i = 0; i < blocks; ++i) {
            const uint32_t word = le32(words.data() + i * 4);
            if (places != nullptr) places->push_back({at.position, word});
            at.position += word & (kStoredAsIs - 1);
            if (at.position > super_.bytes_used && (word & (kStoredAsIs - 1)) > 0)
                throw damaged(subject_,
                              fmt::format("file {:#x} reaches past the end", file.reference));
        }
        number += blocks;
    };
    if (first >= kMapStep) {
        std::shared_ptr<FileMap> map;
        {
            const std::lock_guard lock(maps_mutex_);
            if (maps_.size() >= kMostMaps) maps_.clear();
            auto& entry = maps_[file.reference];
            if (!entry) entry = std::make_shared<FileMap>();
            map = entry;
        }
        std::unique_lock lock(map->mutex, std::try_to_lock);
        if (!lock) {
            may_wait();
            lock.lock();
        }
        auto& places = map->places;
        if (places.empty()) places.push_back(at);
        while (places.size() <= first / kMapStep) {
            at = places.back();
            advance(kMapStep, nullptr);
            places.push_back(at);
        }
        at = places[first / kMapStep];
        number = first / kMapStep * kMapStep;
    }
    if (number < first) advance(first - number, nullptr);
    std::vector<BlockPlace> places;
    places.reserve(count);
    advance(count, &places);
    return places;
}

std::vector<Piece> ImageReader::read(const InodeInfo& file, uint64_t offset,
                                     size_t size_bytes) const {
    std::vector<Piece> pieces;
    if (offset >= file.size_bytes) return pieces;
    const uint64_t end = offset + std::min<uint64_t>(size_bytes, file.size_bytes - offset);
    const uint64_t blocks = block_count(file), size = super_.block_size;
    const uint64_t first = offset / size, last = std::min((end + size - 1) / size, blocks);
    if (first < last) {
        uint64_t number = first;
        for (const BlockPlace& place : locate(file, first, last - first)) {
            const uint64_t from = std::max(offset, number * size);
            const uint64_t to = std::min({end, (number + 1) * size, file.size_bytes});
            pieces.push_back(place.word == 0 ? Piece{nullptr, 0, to - from}
                                             : piece(place, from - number * size, to - from));
            ++number;
        }
    }
    if (end > blocks * size) {
        const uint64_t from = std::max(offset, blocks * size);
        const size_t tail = file.size_bytes - blocks * size;
        if (file.fragment_offset > size || tail > size)
            throw damaged(subject_, "a file has a bad place in its fragment");
        pieces.push_back(piece(fragment(file.fragment),
                               file.fragment_offset + (from - blocks * size), end - from));
    }
    return pieces;
}

bool ImageReader::is_stored_plain(const InodeInfo& file, uint64_t number) const {
    if (number < block_count(file)) return is_plain(locate(file, number, 1).front());
    return file.fragment != kNone && is_plain(fragment(file.fragment));
}

std::string ImageReader::read_whole(const InodeInfo& file, size_t limit_bytes) const {
    if (file.size_bytes > limit_bytes)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("a file of {} bytes inside {} is larger than the {} expected",
                                file.size_bytes, slipway::quoted(subject_), limit_bytes));
    std::string text;
    for (const Piece& piece : read(file, 0, file.size_bytes)) {
        if (piece.block)
            text.append(reinterpret_cast<const char*>(piece.block->data.get()) + piece.offset,
                        piece.size_bytes);
        else
            text.append(piece.size_bytes, '\0');
    }
    return text;
}

}  // namespace slipway::image::squashfs
