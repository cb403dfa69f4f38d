// Finds the root file system in a SIF file.
// Must not: believe an offset before it was held against the file, or read the partition itself.
#include "sif.hpp"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <optional>

#include "../squashfs/superblock.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

using squashfs::le32;
using squashfs::le64;

constexpr size_t kHeaderBytes = 128;
constexpr size_t kDescriptorBytes = 585;
constexpr uint64_t kMostDescriptors = 4096;  // Apptainer makes room for 48
constexpr uint32_t kPartition = 0x4004;

enum FileSystem : uint32_t { kSquashfs = 1, kExt3, kArchive, kRaw, kEncryptedSquashfs, kGocryptfs };
enum PartitionType : uint32_t { kSystem = 1, kPrimarySystem, kData, kOverlay };

Error broken(const std::string& subject, const std::string& detail) {
    return Error(ErrorKind::invalid_image,
                 fmt::format("the SIF file {} is damaged: {}", slipway::quoted(subject), detail))
        .hint("copy or build the image again and compare checksums (sha256sum)");
}

template <size_t N>
std::array<uint8_t, N> read_record(int fd, uint64_t offset, const std::string& what,
                                   const std::string& subject) {
    std::array<uint8_t, N> bytes{};
    size_t got = 0;
    while (got < N) {
        const size_t n = sys::pread(fd, bytes.data() + got, N - got, offset + got, subject);
        if (n == 0) throw broken(subject, fmt::format("it ends within {}", what));
        got += n;
    }
    return bytes;
}

/// A text of fixed width, up to its NUL.
std::string text_of(const uint8_t* bytes, size_t size) {
    const auto* text = reinterpret_cast<const char*>(bytes);
    return {text, strnlen(text, size)};
}

/// Source: sif, pkg/sif/arch.go.
constexpr std::pair<const char*, const char*> kArchitectures[] = {
    {"01", "386"},     {"02", "amd64"},   {"03", "arm"},     {"04", "arm64"},  {"05", "ppc64"},
    {"06", "ppc64le"}, {"07", "mips"},    {"08", "mipsle"},  {"09", "mips64"}, {"10", "mips64le"},
    {"11", "s390x"},   {"12", "riscv64"}, {"13", "loong64"},
};

std::string architecture_of(const std::string& code) {
    for (const auto& [number, name] : kArchitectures)
        if (code == number) return name;
    return {};
}

struct Descriptor {
    uint32_t file_system = 0, partition_type = 0;
    uint64_t offset_bytes = 0, size_bytes = 0;
    std::string architecture;
};

/// One descriptor; std::nullopt for an unused one and for what is no partition.
std::optional<Descriptor> parse(const std::array<uint8_t, kDescriptorBytes>& b) {
    // i32 type, u8 used, u32 id, u32 group, u32 link, i64 offset, i64 size, ..., extra[384] at 201
    constexpr size_t kExtra = kDescriptorBytes - 384;
    if (b[4] == 0 || le32(b.data()) != kPartition) return std::nullopt;
    Descriptor descriptor;
    descriptor.offset_bytes = le64(b.data() + 17);
    descriptor.size_bytes = le64(b.data() + 25);
    descriptor.file_system = le32(b.data() + kExtra);
    descriptor.partition_type = le32(b.data() + kExtra + 4);
    descriptor.architecture = architecture_of(text_of(b.data() + kExtra + 8, 3));
    return descriptor;
}

std::string name_of(uint32_t file_system) {
    switch (file_system) {
        case kExt3:
            return "ext3";
        case kArchive:
            return "an archive";
        case kRaw:
            return "raw data";
        default:
            return fmt::format("a file system of the unknown kind {}", file_system);
    }
}

void require_squashfs(const Descriptor& root, const std::string& subject) {
    if (root.file_system == kSquashfs) return;
    if (root.file_system == kEncryptedSquashfs || root.file_system == kGocryptfs) {
        throw Error(
            ErrorKind::unsupported,
            fmt::format("the root file system of {} is encrypted ({})", slipway::quoted(subject),
                        root.file_system == kGocryptfs ? "gocryptfs" : "LUKS"))
            .note("Slipway holds no keys and cannot open it")
            .hint("make an image without encryption from the same source");
    }
    throw Error(ErrorKind::unsupported,
                fmt::format("the root file system of {} is {}, not squashfs",
                            slipway::quoted(subject), name_of(root.file_system)))
        .hint(
            "build the SIF again with a current Apptainer, or unpack it: apptainer build "
            "--sandbox DIRECTORY FILE.sif");
}

struct Table {
    uint64_t offset_bytes = 0, count = 0;
};

Table read_header(int fd, uint64_t file_bytes, const std::string& subject) {
    const auto header = read_record<kHeaderBytes>(fd, 0, "its header", subject);
    // launch[32], magic[10], version[3], arch[3], uuid[16], then eight i64
    if (std::memcmp(header.data() + 32, "SIF_MAGIC", 10) != 0) {
        throw Error(
            ErrorKind::invalid_image,
            fmt::format("{} is no SIF file: it lacks the mark SIF_MAGIC", slipway::quoted(subject)))
            .hint("name a file that apptainer or singularity has built");
    }
    const std::string version = text_of(header.data() + 42, 3);
    if (version != "01") {
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is a SIF of version {}; version 01 is understood",
                                slipway::quoted(subject), slipway::quoted(version)));
    }
    Table table{le64(header.data() + 96), le64(header.data() + 88)};
    const uint64_t table_bytes = le64(header.data() + 104);
    if (table.count == 0 || table.count > kMostDescriptors ||
        table_bytes < table.count * kDescriptorBytes)
        throw broken(subject,
                     fmt::format("it claims {} descriptors in {} bytes", table.count, table_bytes));
    if (table.offset_bytes < kHeaderBytes || table.offset_bytes > file_bytes ||
        table.count * kDescriptorBytes > file_bytes - table.offset_bytes)
        throw broken(subject, "its descriptors lie outside the file");
    return table;
}

}  // namespace

std::string sif_architecture_code(const std::string& architecture) {
    for (const auto& [number, name] : kArchitectures)
        if (architecture == name) return number;
    return {};
}

SifRoot find_sif_root(int fd, const std::string& subject) {
    const auto file_bytes = static_cast<uint64_t>(sys::fstat(fd, subject).st_size);
    const Table table = read_header(fd, file_bytes, subject);
    std::optional<Descriptor> root;
    bool overlay = false;
    for (uint64_t i = 0; i < table.count; ++i) {
        const auto descriptor = parse(read_record<kDescriptorBytes>(
            fd, table.offset_bytes + i * kDescriptorBytes, "its descriptors", subject));
        if (!descriptor) continue;
        overlay |= descriptor->partition_type == kOverlay;
        if (descriptor->partition_type != kPrimarySystem) continue;
        if (root) throw broken(subject, "it has two primary system partitions");
        root = descriptor;
    }
    if (!root) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the SIF file {} has no root file system: no primary system "
                                "partition",
                                slipway::quoted(subject)))
            .hint("list what it holds: apptainer sif list FILE.sif");
    }
    require_squashfs(*root, subject);
    const uint64_t end = root->offset_bytes + root->size_bytes;
    if (root->offset_bytes < kHeaderBytes || end < root->offset_bytes || root->size_bytes == 0)
        throw broken(subject, "its root partition has no sensible place");
    if (end > file_bytes) {
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the SIF file {} is cut off: it has {} bytes of {}",
                                slipway::quoted(subject), file_bytes, end))
            .hint(fmt::format("copy the image again; its size should be at least {} bytes", end));
    }
    SifRoot found{root->offset_bytes, root->size_bytes, root->architecture, {}};
    if (overlay) {
        found.warnings.push_back(
            fmt::format("{} holds an overlay partition; the changes in it are not shown", subject));
    }
    return found;
}

}  // namespace slipway::image
