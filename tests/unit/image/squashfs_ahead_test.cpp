// Reading ahead what a program's start asks for: found through links, bounded, silent on damage.
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <cstring>

#include "../../../src/image/squashfs/start_files.hpp"
#include "catch.hpp"
#include "memory_source.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

using namespace slipway;
using namespace slipway::image;
using namespace slipway::image::squashfs;
using namespace slipway::image::test;

namespace {

constexpr size_t kProgramBytes = 9000, kLoaderBytes = 30000, kLibraryBytes = 50000;

/// What a compressor makes smaller.
std::string text(size_t size_bytes, unsigned seed) {
    std::string bytes;
    for (unsigned i = seed; bytes.size() < size_bytes; ++i) bytes += fmt::format("line {} ", i);
    bytes.resize(size_bytes);
    return bytes;
}

/// An ELF file that names an interpreter and one library, as far as these are looked at.
std::string program(const std::string& interpreter, const std::string& library) {
    std::string bytes(kProgramBytes, '\0');
    Elf64_Ehdr start = {};
    std::memcpy(start.e_ident, ELFMAG, SELFMAG);
    start.e_ident[EI_CLASS] = ELFCLASS64;
    start.e_ident[EI_DATA] = ELFDATA2LSB;
    start.e_phoff = sizeof start;
    start.e_phentsize = sizeof(Elf64_Phdr);
    start.e_phnum = 3;
    Elf64_Phdr headers[3] = {};
    headers[0].p_type = PT_LOAD;
    headers[0].p_vaddr = 0x400000;
    headers[0].p_filesz = bytes.size();
    headers[1].p_type = PT_INTERP;
    headers[1].p_offset = 1000;
    headers[2].p_type = PT_DYNAMIC;
    headers[2].p_offset = 2000;
    Elf64_Dyn dynamic[3] = {};
    dynamic[0].d_tag = DT_NEEDED;
    dynamic[0].d_un.d_val = 5;
    dynamic[1].d_tag = DT_STRTAB;
    dynamic[1].d_un.d_ptr = 0x400000 + 3000;
    headers[2].p_filesz = sizeof dynamic;
    std::memcpy(&bytes[0], &start, sizeof start);
    std::memcpy(&bytes[sizeof start], headers, sizeof headers);
    bytes.replace(1000, interpreter.size(), interpreter);
    std::memcpy(&bytes[2000], dynamic, sizeof dynamic);
    bytes.replace(3005, library.size(), library);
    return bytes;
}

std::string image_bytes() {
    const TempDir directory(temporary_directory());
    const Members members{dir("usr"),
                          dir("usr/bin"),
                          dir("usr/lib"),
                          dir("usr/lib/arch"),
                          soft_link("bin", "usr/bin"),
                          soft_link("loop", "loop"),
                          file("usr/bin/tool", program("/usr/lib/loader", "liba.so.1")),
                          file("usr/bin/script", "#! /bin/tool -x\n"),
                          soft_link("usr/lib/loader", "../lib/arch/loader"),
                          file("usr/lib/arch/loader", text(kLoaderBytes, 1)),
                          soft_link("usr/lib/arch/liba.so.1", "liba.so.1.2"),
                          file("usr/lib/arch/liba.so.1.2", text(kLibraryBytes, 2000)),
                          file("etc", "no directory")};
    SquashfsOptions options;
    options.block_size_bytes = 4096;
    write_squashfs(std::vector<LayerOpener>{opener(members)}, {}, directory.path() + "/o", options);
    return read_file(directory.path() + "/o");
}

uint64_t ahead(const std::string& bytes, const std::vector<std::string>& programs,
               const std::vector<std::string>& files = {}, bool stopped = false) {
    const UniqueFd fd = sys::memfd_create("image");
    sys::write_all(fd.get(), bytes.data(), bytes.size(), "image");
    const ImageReader reader({fd.get(), 0}, "image");
    const std::atomic<bool> stop = stopped;
    return read_start_files(reader, programs, files, stop);
}

/// An image of these members, in blocks of 4 KiB.
struct WrittenImage {
    explicit WrittenImage(const Members& members) {
        SquashfsOptions options;
        options.block_size_bytes = 4096;
        write_squashfs(std::vector<LayerOpener>{opener(members)}, {}, path, options);
        fd = sys::open(path, O_RDONLY);
    }
    const TempDir directory{temporary_directory()};
    const std::string path = directory.path() + "/o";
    UniqueFd fd;
};

}  // namespace

TEST_CASE("a program is read ahead with its interpreter and libraries") {
    const std::string bytes = image_bytes();
    constexpr uint64_t all = kProgramBytes + kLoaderBytes + kLibraryBytes;
    CHECK(ahead(bytes, {"/opt/tool", "/bin/tool", "/usr/bin/script"}) == all);
    CHECK(ahead(bytes, {"/usr/bin/script"}) == all);
    CHECK(ahead(bytes, {"/bin/tool"}, {"/usr/bin/../bin/tool"}) == all);  // once
    CHECK(ahead(bytes, {"/bin/tool"}, {}, true) == 0);
}

TEST_CASE("what every start reads is stored as it is, and read no further than is asked") {
    const std::string library = text(kLibraryBytes, 7);
    const Members members{dir("etc"),
                          dir("lib64"),
                          dir("opt"),
                          dir("opt/lib"),
                          dir("usr"),
                          dir("usr/lib"),
                          dir("usr/lib/arch"),
                          dir("usr/lib/arch/old"),
                          file("etc/passwd", text(900, 1)),
                          file("etc/profile", text(900, 100)),
                          file("lib64/ld-linux-x86-64.so.2", text(kLoaderBytes, 2)),
                          file("opt/lib/libc.so.6", text(kLibraryBytes, 3000)),
                          file("usr/lib/arch/libc.so.6", library),
                          file("usr/lib/arch/libcap.so.2", text(kLibraryBytes, 9000)),
                          file("usr/lib/arch/old/libc.so.6", text(kLibraryBytes, 20000))};
    const WrittenImage image(members);
    const ImageReader reader({image.fd.get(), 0}, image.path);
    const auto plain = [&](const char* name) {
        return reader.is_stored_plain(reader.find(name).value());
    };
    CHECK(plain("etc/passwd"));
    CHECK(plain("lib64/ld-linux-x86-64.so.2"));
    CHECK(plain("usr/lib/arch/libc.so.6"));
    CHECK_FALSE(plain("etc/profile"));
    CHECK_FALSE(plain("opt/lib/libc.so.6"));
    CHECK_FALSE(plain("usr/lib/arch/libcap.so.2"));
    CHECK_FALSE(plain("usr/lib/arch/old/libc.so.6"));

    const InodeInfo inode = reader.find("usr/lib/arch/libc.so.6").value();
    for (const uint64_t offset : {0u, 4000u, 4096u, 49000u}) {
        std::string got;
        for (const Piece& piece : reader.read(inode, offset, 700)) {
            CHECK(piece.block->size_bytes == piece.size_bytes);  // no whole block
            got.append(reinterpret_cast<const char*>(piece.block->data.get()) + piece.offset,
                       piece.size_bytes);
        }
        CHECK(got == library.substr(offset, 700));
    }
}

TEST_CASE("of the tables, what every start reads is stored as it is") {
    Members members{dir("usr"), file("large", std::string(16 << 20, 'x'))};
    for (int i = 0; i < 600; ++i) members.push_back(file(fmt::format("usr/file-{}", i), ""));
    const WrittenImage image(members);
    const Superblock super = read_superblock({image.fd.get(), 0}, image.path);
    const std::string bytes = read_file(image.path);
    const auto as_is = [&](uint64_t block) { return (le16(&bytes[block]) & 0x8000) != 0; };
    const auto in = [&](uint64_t table, uint64_t reference) { return table + (reference >> 16); };
    const ImageReader reader({image.fd.get(), 0}, image.path);
    CHECK(as_is(in(super.inode_table, super.root)));
    CHECK(as_is(super.directory_table + reader.root().listing_block));
    const InodeInfo config = reader.find(".slipway/image.json").value();
    CHECK(as_is(in(super.inode_table, config.reference)));
    CHECK(as_is(le64(&bytes[super.fragment_table])));
    CHECK(as_is(le64(&bytes[super.id_table])));
    CHECK_FALSE(as_is(super.inode_table));
    CHECK_FALSE(as_is(super.directory_table));
    CHECK_FALSE(as_is(in(super.inode_table, reader.find("large").value().reference)));
}

TEST_CASE("what is not there is left out") {
    const std::string bytes = image_bytes();
    CHECK(ahead(bytes, {"/none", "/loop", "/usr", "/etc/x", ""}, {"/loop/x", "/etc"}) == 12);
}

TEST_CASE("damage while reading ahead is left to those who ask") {
    const std::string good = image_bytes();
    for (size_t at = 96; at < good.size(); at += 1 + good.size() / 400) {
        std::string bytes = good;
        bytes[at] = static_cast<char>(~bytes[at]);
        uint64_t read = 0;
        try {
            read = ahead(bytes, {"/usr/bin/script"}, {"/etc"});
        } catch (const Error&) {  // the reader itself refuses the file
        }
        CHECK(read <= kMostAhead);
    }
}
