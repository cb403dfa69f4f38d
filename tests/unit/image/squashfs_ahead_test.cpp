// Reading ahead what a program's start asks for: found through links, bounded, silent on damage.
#include <elf.h>
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
                          file("usr/lib/arch/loader", noise(kLoaderBytes, 1)),
                          soft_link("usr/lib/arch/liba.so.1", "liba.so.1.2"),
                          file("usr/lib/arch/liba.so.1.2", noise(kLibraryBytes, 2)),
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

}  // namespace

TEST_CASE("a program is read ahead with its interpreter and libraries") {
    const std::string bytes = image_bytes();
    constexpr uint64_t all = kProgramBytes + kLoaderBytes + kLibraryBytes;
    CHECK(ahead(bytes, {"/opt/tool", "/bin/tool", "/usr/bin/script"}) == all);
    CHECK(ahead(bytes, {"/usr/bin/script"}) == all);
    CHECK(ahead(bytes, {"/bin/tool"}, {"/usr/bin/../bin/tool"}) == all);  // once
    CHECK(ahead(bytes, {"/bin/tool"}, {}, true) == 0);
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
        try {
            CHECK(ahead(bytes, {"/usr/bin/script"}, {"/etc"}) <= kMostAhead);
        } catch (const Error&) {  // the reader itself refuses the file
        }
    }
}
