// Fragment blocks of which later layers leave little: repacked, with the promises of any squashfs.
// Must not: need privilege or any tool.
#include <fmt/format.h>

#include <filesystem>

#include "../../../src/image/squashfs/repack.hpp"
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

constexpr int kFiles = 400;
constexpr size_t kFileBytes = 1000;  // four to a block
constexpr uint32_t kBlockBytes = 4096;

SquashfsOptions options(unsigned threads = 2, SquashfsCodec codec = SquashfsCodec::zstd) {
    SquashfsOptions made;
    made.block_size_bytes = kBlockBytes;
    made.threads = threads;
    made.codec = codec;
    return made;
}

std::string name_of(int i) { return fmt::format("f{:03}", i); }
/// Text that compresses a little, so that its blocks are compressed ones.
std::string text_of(int i, int version) {
    return noise(kFileBytes / 2, static_cast<uint64_t>(i) * 7 + static_cast<uint64_t>(version)) +
           std::string(kFileBytes - kFileBytes / 2, 'a');
}
Members base() {
    Members members;
    for (int i = 0; i < kFiles; ++i) members.push_back(file(name_of(i), text_of(i, 0)));
    return members;
}
/// Deletes three of four files, replaces the last tenth of the rest.
Members over() {
    Members members;
    for (int i = 0; i < kFiles; ++i)
        if (i % 4 != 0) members.push_back(file(".wh." + name_of(i), ""));
    for (int i = kFiles * 9 / 10; i < kFiles; i += 4)
        members.push_back(file(name_of(i), text_of(i, 1)));
    return members;
}
Members flat() {
    Members members;
    for (int i = 0; i < kFiles; i += 4)
        members.push_back(file(name_of(i), text_of(i, i >= kFiles * 9 / 10)));
    return members;
}
LayerInput keyed(const std::string& key, LayerOpener open) {
    return {key, [open = std::move(open)](Progress*) { return open(); }, 0};
}
std::vector<LayerInput> both() {
    return {keyed("base", opener(base())), keyed("over", opener(over()))};
}

struct Place {
    TempDir directory{temporary_directory()};
    std::string path(const std::string& name) const { return directory.path() + "/" + name; }
};

void check_contents(const std::string& path) {
    const SquashfsImage image(sys::open(path, O_RDONLY), path);
    for (int i = 0; i < kFiles; ++i) {
        const auto text = image.read_file(name_of(i));
        REQUIRE(text.has_value() == (i % 4 == 0));
        if (text) REQUIRE(*text == text_of(i, i >= kFiles * 9 / 10));
    }
}

}  // namespace

TEST_CASE("squashfs: dead small files leave the image, whatever the codec") {
    const Place place;
    const auto codec =
        GENERATE(SquashfsCodec::zstd, SquashfsCodec::gzip, SquashfsCodec::xz, SquashfsCodec::lz4);
    const std::string out = place.path("o.sqfs");
    const auto report = write_squashfs(both(), {}, out, options(2, codec));
    check_contents(out);
    const auto plain = write_squashfs(std::vector<LayerOpener>{opener(flat())}, {},
                                      place.path("flat.sqfs"), options(2, codec));
    CHECK(plain.repacked_blocks == 0);
    CHECK(plain.saved_bytes == 0);
    CHECK(report.repacked_blocks == kFiles / 4 * 9 / 10);
    // The blocks that were left held four files each, one of them alive.
    CHECK(report.saved_bytes > kFiles * 9 / 10 * kFileBytes * 3 / 4 / 3);
    CHECK(report.output_bytes < plain.output_bytes + 2 * kBlockBytes);
    size_t files = 0;
    for ([[maybe_unused]] const auto& each :
         std::filesystem::directory_iterator(place.directory.path()))
        ++files;
    CHECK(files == 2);
}

TEST_CASE("squashfs: a repacked image has the same bytes on any number of threads") {
    const Place place;
    SquashfsOptions cached = options();
    cached.pack_directory = place.path("packs");
    std::string first;
    for (const unsigned threads : {1u, 2u, 4u, 7u}) {
        write_squashfs(both(), {}, place.path("o.sqfs"), options(threads));
        const std::string bytes = read_file(place.path("o.sqfs"));
        if (first.empty()) first = bytes;
        CHECK(bytes == first);
    }
    for (int round = 0; round < 2; ++round) {  // the second finds the layers packed
        write_squashfs(both(), {}, place.path("o.sqfs"), cached);
        CHECK(read_file(place.path("o.sqfs")) == first);
    }
}

TEST_CASE("squashfs: a damaged block of a cached pack that is only repacked is found") {
    const Place place;
    SquashfsOptions cached = options();
    cached.pack_directory = place.path("packs");
    write_squashfs(both(), {}, place.path("o.sqfs"), cached);
    const std::string whole = read_file(place.path("o.sqfs"));
    for (const auto& pack : std::filesystem::directory_iterator(cached.pack_directory)) {
        if (!pack.path().filename().string().starts_with("base")) continue;
        const UniqueFd fd = sys::open(pack.path(), O_RDWR);
        char byte = 0;
        REQUIRE(sys::pread(fd.get(), &byte, 1, 100, "pack") == 1);
        byte = static_cast<char>(byte ^ 4);
        sys::pwrite_all(fd.get(), &byte, 1, 100, "pack");
    }
    write_squashfs(both(), {}, place.path("o.sqfs"), cached);
    CHECK(read_file(place.path("o.sqfs")) == whole);
}

TEST_CASE("squashfs: blocks that are stored as they are stay so when they are repacked") {
    const Place place;
    Members layer = base(), top;
    for (Member& member : layer) member.entry.stored_raw = true;
    for (int i = 0; i < kFiles; ++i)
        if (i % 4 != 0) top.push_back(file(".wh." + name_of(i), ""));
    const std::string out = place.path("o.sqfs");
    const auto report =
        write_squashfs(std::vector<LayerOpener>{opener(layer), opener(top)}, {}, out, options());
    CHECK(report.repacked_blocks == kFiles / 4);
    CHECK(report.saved_bytes == kFiles * kFileBytes * 3 / 4);
    const SquashfsImage image(sys::open(out, O_RDONLY), out);
    CHECK(image.read_file(name_of(8)) == text_of(8, 0));
}

TEST_CASE("squashfs: half alive is worth keeping, less is not") {
    using namespace squashfs;
    std::vector<Pack> packs(2);
    for (Pack& pack : packs) {
        pack.blocks = {{0, 3000, {}}, {3000, 2000, {}}};
        pack.fragments = {1, 0};  // numbered by first tail, written in another order
        pack.fragment_bytes = {4000, 4096};
    }
    TailPlan tails;
    tails.tails = {{0, 0, 0, 1000},    {0, 0, 2000, 1000},  // half of 4000
                   {0, 1, 0, 2000},    {0, 1, 2000, 47},    // one byte less than half of 4096
                   {1, 0, 3000, 1000}, {1, 0, 0, 999},      // the same of 4000
                   {1, 1, 500, 1}};
    CHECK(plan_repack(tails, packs) == RepackPlan{2, 3, 6, 5, 4});
    CHECK(plan_repack({}, packs).empty());
}
