// The seal's bytes: header, hash tree, signatures.
// Must not: judge who signed.
#include "seal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../squashfs/superblock.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

using squashfs::le32;
using squashfs::le64;

constexpr char kMagic[16] = {'S', 'L', 'I', 'P', 'W', 'A', 'Y',  '-',
                             'S', 'E', 'A', 'L', '-', '1', '\n', '\0'};
constexpr std::string_view kContext = "slipway seal, version 1\n";
constexpr size_t kSignedBytes = 80;   // of the header
constexpr size_t kFieldsBytes = 128;  // zeros follow
constexpr size_t kSumAt = kSealAlignBytes - kHashBytes;
constexpr uint64_t kMostSignatureBytes = 1u << 20;
constexpr size_t kRecordBytes = 40;  // before a record's two texts

void put32(std::string& out, uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xff);
}
void put64(std::string& out, uint64_t value) {
    put32(out, static_cast<uint32_t>(value));
    put32(out, static_cast<uint32_t>(value >> 32));
}
void put(std::string& out, const HashBytes& bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

uint64_t aligned(uint64_t size) {
    return (size + kSealAlignBytes - 1) / kSealAlignBytes * kSealAlignBytes;
}

Error bad_seal(const std::string& subject, const std::string& detail) {
    return Error(ErrorKind::invalid_image, fmt::format("the signature of {} is damaged: {}",
                                                       slipway::quoted(subject), detail))
        .hint("copy the image again, or have it signed again");
}

std::string read_at(int fd, uint64_t position, size_t size, const std::string& subject) {
    std::string bytes(size, '\0');
    for (size_t got = 0; got < size;) {
        const size_t n = sys::pread(fd, bytes.data() + got, size - got, position + got, subject);
        if (n == 0) throw bad_seal(subject, "the file ends within it");
        got += n;
    }
    return bytes;
}

/// The first fields of the header, which are signed.
std::string signed_fields(const Seal& seal) {
    const HashTreeShape shape = hash_tree_shape(seal.content_bytes);
    std::string out(kMagic, sizeof kMagic);
    put32(out, kHashChunkBytes);
    put32(out, kHashNodeBytes);
    put64(out, seal.content_bytes);
    put64(out, shape.tree_bytes);
    put32(out, static_cast<uint32_t>(shape.levels.size()));
    put32(out, 0);
    put(out, seal.root);
    return out;
}

std::string signature_area(const Seal& seal) {
    std::string out;
    for (const auto& signature : seal.signatures) {
        put32(out, static_cast<uint32_t>(signature.bytes.size()));
        put32(out, static_cast<uint32_t>(signature.certificates.size()));
        const std::string hex = signature.key_id.hex();
        for (size_t i = 0; i < hex.size(); i += 2)
            out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
        out += signature.bytes + signature.certificates;
    }
    return out;
}

std::string header_of(const Seal& seal, const std::string& area) {
    std::string header = signed_fields(seal);
    put64(header, area.size());
    put32(header, static_cast<uint32_t>(seal.signatures.size()));
    put32(header, 0);
    put(header, sha256_bytes(area.data(), area.size()));
    header.resize(kSumAt, '\0');
    put(header, sha256_bytes(header.data(), header.size()));
    return header;
}

Digest digest_from(const char* bytes) {
    std::string text = "sha256:";
    for (size_t i = 0; i < kHashBytes; ++i)
        text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
    return Digest::parse(text);
}

std::vector<Signature> parse_signatures(const std::string& area, uint32_t count,
                                        const std::string& subject) {
    std::vector<Signature> signatures;
    size_t at = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (area.size() - at < kRecordBytes) throw bad_seal(subject, "a record is cut off");
        const uint64_t bytes = le32(area.data() + at), text = le32(area.data() + at + 4);
        if (bytes + text > area.size() - at - kRecordBytes)
            throw bad_seal(subject, "a record is cut off");
        Signature signature;
        signature.key_id = digest_from(area.data() + at + 8);
        signature.bytes = area.substr(at + kRecordBytes, bytes);
        signature.certificates = area.substr(at + kRecordBytes + bytes, text);
        at += kRecordBytes + bytes + text;
        signatures.push_back(std::move(signature));
    }
    if (at != area.size()) throw bad_seal(subject, "there is more than its records");
    return signatures;
}

bool all_zero(std::string_view bytes) {
    return bytes.find_first_not_of('\0') == std::string_view::npos;
}

uint64_t file_size(int fd, const std::string& subject) {
    return static_cast<uint64_t>(sys::fstat(fd, subject).st_size);
}

Error something_else(const std::string& subject, uint64_t offset) {
    return Error(ErrorKind::invalid_image,
                 fmt::format("something lies behind the squashfs in {}, from byte {} on, that is "
                             "no signature of Slipway's",
                             slipway::quoted(subject), offset))
        .hint("copy or build the image again");
}

/// True when the file holds nothing but zeros from `offset` on.
bool ends_in_zeros(int fd, uint64_t offset, uint64_t size, const std::string& subject) {
    while (offset < size) {
        const size_t part = std::min<uint64_t>(1u << 20, size - offset);
        if (!all_zero(read_at(fd, offset, part, subject))) return false;
        offset += part;
    }
    return true;
}

}  // namespace

std::string Seal::message() const { return std::string(kContext) + signed_fields(*this); }

uint64_t seal_offset(int fd, const std::string& subject) {
    return aligned(squashfs::read_superblock({fd}, subject).bytes_used);
}

std::optional<Seal> read_seal(int fd, const std::string& subject) {
    Seal seal;
    seal.content_bytes = seal_offset(fd, subject);
    const uint64_t size = file_size(fd, subject);
    if (size <= seal.content_bytes) return std::nullopt;
    const std::string header =
        read_at(fd, seal.content_bytes,
                std::min<uint64_t>(kSealAlignBytes, size - seal.content_bytes), subject);
    if (!header.starts_with(std::string_view(kMagic, sizeof kMagic)) ||
        header.size() < kSealAlignBytes) {
        if (ends_in_zeros(fd, seal.content_bytes, size, subject)) return std::nullopt;
        throw something_else(subject, seal.content_bytes);
    }
    const uint64_t area_bytes = le64(header.data() + kSignedBytes);
    const uint32_t count = le32(header.data() + kSignedBytes + 8);
    std::memcpy(seal.root.data(), header.data() + 48, kHashBytes);
    const HashTreeShape shape = hash_tree_shape(seal.content_bytes);
    const HashBytes sum = sha256_bytes(header.data(), kSumAt);
    if (std::memcmp(sum.data(), header.data() + kSumAt, kHashBytes) != 0)
        throw bad_seal(subject, "its header's checksum differs");
    if (area_bytes > kMostSignatureBytes ||
        size != seal.tree_offset_bytes() + shape.tree_bytes + aligned(area_bytes))
        throw bad_seal(subject, "its sizes are not the file's");
    const std::string area =
        read_at(fd, seal.tree_offset_bytes() + shape.tree_bytes, aligned(area_bytes), subject);
    if (!all_zero(std::string_view(area).substr(area_bytes)))
        throw bad_seal(subject, "there is something behind its records");
    seal.signatures = parse_signatures(area.substr(0, area_bytes), count, subject);
    // Every member was understood: what we would write is what is there.
    if (header_of(seal, area.substr(0, area_bytes)) != header)
        throw bad_seal(subject, "its header holds what this version does not know");
    return seal;
}

void write_seal(int fd, const std::string& subject, const Seal& seal, const HashTree& tree) {
    const std::string area = signature_area(seal);
    const std::string header = header_of(seal, area);
    const uint64_t at = seal.tree_offset_bytes();
    sys::ftruncate(fd, static_cast<off_t>(seal.content_bytes), subject);
    sys::pwrite_all(fd, header.data(), header.size(), seal.content_bytes, subject);
    sys::pwrite_all(fd, tree.bytes.data(), tree.bytes.size(), at, subject);
    sys::pwrite_all(fd, area.data(), area.size(), at + tree.bytes.size(), subject);
    sys::ftruncate(fd, static_cast<off_t>(at + tree.bytes.size() + aligned(area.size())), subject);
}

std::shared_ptr<const SealedContent> open_sealed(int fd, const std::string& subject,
                                                 const Digest& digest) {
    const auto seal = read_seal(fd, subject);
    if (!seal || seal->digest() != digest)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is not the file that was verified: its seal is {}",
                                slipway::quoted(subject), seal ? "another one" : "gone"))
            .hint("try again; somebody replaced the image meanwhile");
    return std::make_shared<const SealedContent>(seal->content_bytes, seal->root,
                                                 seal->tree_offset_bytes());
}

squashfs::ImageFile squashfs::open_image(int fd, uint64_t offset_bytes, const std::string& subject,
                                         const Digest& seal) {
    squashfs::ImageFile file{fd, offset_bytes};
    if (!seal.empty()) file.sealed = open_sealed(fd, subject, seal);
    return file;
}

}  // namespace slipway::image
