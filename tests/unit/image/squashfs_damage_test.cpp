// Damaged, cut and hostile squashfs files: an error that says what to do, never a crash or a hang.
// Must not: accept any exception but ours.
#include <fmt/format.h>

#include <cstring>

#include "catch.hpp"
#include "memory_source.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

using namespace slipway;
using namespace slipway::image;
using namespace slipway::image::test;

namespace {

std::string small_image() {
    static const std::string bytes = [] {
        const TempDir directory(temporary_directory());
        SquashfsOptions options;
        options.block_size_bytes = 4096;
        Members members{dir("d"), file("d/big", noise(20000, 1) + std::string(30000, 'a')),
                        soft_link("l", "d/big"), hard_link("h", "d/big")};
        for (int i = 0; i < 400; ++i)
            members.push_back(file(fmt::format("d/f{}", i), noise(i % 90, i)));
        members.back().entry.xattrs = {{"user.x", std::string(300, 'v')}};
        write_squashfs(std::vector<LayerOpener>{opener(members)}, {}, directory.path() + "/o",
                       options);
        return read_file(directory.path() + "/o");
    }();
    return bytes;
}

UniqueFd file_of(const std::string& bytes) {
    UniqueFd fd = sys::memfd_create("image");
    sys::write_all(fd.get(), bytes.data(), bytes.size(), "image");
    return fd;
}

/// Read everything; true if it could be read. Anything but Error escapes and fails the test.
bool readable(const std::string& bytes) {
    try {
        SquashfsImage(file_of(bytes), "image");
        const auto source = open_squashfs(file_of(bytes), "image");
        Entry entry;
        std::string buffer(1 << 16, '\0');
        for (int entries = 0; source->next(entry); ++entries) {
            REQUIRE(entries < 100000);
            // A damaged size may claim a huge file of holes: its end need not be seen.
            uint64_t total = 0;
            while (const size_t n = source->read(buffer.data(), buffer.size()))
                if ((total += n) > (8u << 20)) break;
        }
        SquashfsImage(file_of(bytes), "image").read_file("d/f7");
        return true;
    } catch (const Error& error) {
        CHECK_FALSE(error.message().empty());
        return false;
    }
}

std::string message_of(const std::string& bytes) {
    try {
        SquashfsImage(file_of(bytes), "image");
        return "";
    } catch (const Error& error) {
        return error.render();
    }
}

std::string with(size_t at, const std::string& patch) {
    std::string bytes = small_image();
    bytes.replace(at, patch.size(), patch);
    return bytes;
}

}  // namespace

TEST_CASE("damage: the reason and the remedy are named") {
    const std::string image = small_image();
    CHECK(message_of(image) == "");
    CHECK_THAT(message_of(""), ContainsSubstring("it is empty"));
    CHECK_THAT(message_of("#!/bin/sh\n"), ContainsSubstring("first bytes are not"));
    CHECK_THAT(message_of(image.substr(0, 50)), ContainsSubstring("only 50 bytes"));
    uint64_t used = 0;
    std::memcpy(&used, image.data() + 40, sizeof used);
    const std::string cut = message_of(image.substr(0, image.size() / 2));
    CHECK_THAT(cut, ContainsSubstring("is cut off"));
    CHECK_THAT(cut, ContainsSubstring(fmt::format("its size should be {}", used)));
    CHECK_THAT(message_of(with(28, std::string("\3\0", 2))), ContainsSubstring("version 3.0"));
    CHECK_THAT(message_of(with(12, std::string("\1\0\0\0", 4))), ContainsSubstring("blocks of"));
    CHECK_THAT(message_of(with(20, std::string("\x63\0", 2))), ContainsSubstring("codec, 99"));
    CHECK_THAT(message_of(with(20, std::string("\2\0", 2))), ContainsSubstring("lzma"));
    const std::string far("\0\0\0\0\0\1\0\0", 8);
    const std::pair<size_t, const char*> tables[] = {
        {48, "owner"}, {64, "inode"}, {72, "directory"}, {80, "fragment"}};
    for (const auto& [at, name] : tables)
        CHECK_THAT(message_of(with(at, far)), ContainsSubstring(std::string("its ") + name));
    CHECK_THAT(message_of(with(32, far)), ContainsSubstring("root directory"));
}

TEST_CASE("damage: an image cut anywhere is an error") {
    const std::string image = small_image();
    uint64_t used = 0;
    std::memcpy(&used, image.data() + 40, sizeof used);
    for (size_t size = 0; size < used; size += 211) CHECK_FALSE(readable(image.substr(0, size)));
    CHECK(readable(image.substr(0, used)));
}

TEST_CASE("damage: flipped bytes anywhere end well") {
    const std::string image = small_image();
    REQUIRE(readable(image));
    uint64_t seed = 7;
    size_t unreadable = 0;
    for (int round = 0; round < 4000; ++round) {
        std::string bytes = image;
        // The tables are at the end: most flips go there, and to the superblock.
        for (int flips = 0; flips < 1 + round % 4; ++flips) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const size_t span = round % 3 == 0 ? image.size() : round % 3 == 1 ? 96 : 3000;
            const size_t base = round % 3 == 2 && image.size() > 7000 ? image.size() - 7000 : 0;
            bytes[base + (seed >> 33) % span] = static_cast<char>(seed >> 24);
        }
        if (!readable(bytes)) ++unreadable;
    }
    CHECK(unreadable > 100);
}
