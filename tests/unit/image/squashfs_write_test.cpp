// The writer and the reader of squashfs files against each other, and the writer's promises.
// Must not: need privilege or any tool; unsquashfs and the kernel are asked in tests/system.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "../../../src/image/temp_file.hpp"
#include "catch.hpp"
#include "memory_source.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

using namespace slipway;
using namespace slipway::image;
using namespace slipway::image::test;

namespace {

struct Place {
    TempDir directory{temporary_directory()};
    std::string path(const std::string& name) const { return directory.path() + "/" + name; }
    size_t files() const {
        return static_cast<size_t>(
            std::distance(std::filesystem::directory_iterator(directory.path()), {}));
    }
};

SquashfsOptions small_blocks(unsigned threads = 2) {
    SquashfsOptions options;
    options.block_size_bytes = 4096;
    options.threads = threads;
    return options;
}

LayerInput keyed(const std::string& key, LayerOpener open) {
    return {key, [open = std::move(open)](Progress*) { return open(); }, 0};
}

/// Everything in an image: "TYPE MODE PATH SIZE digest-or-target", in order.
std::vector<std::string> contents(const std::string& path) {
    std::vector<std::string> lines;
    const auto source = open_squashfs(sys::open(path, O_RDONLY), path);
    Entry entry;
    while (source->next(entry)) {
        Sha256 sha;
        std::string buffer(70000, '\0');
        uint64_t size = 0;
        while (const size_t n = source->read(buffer.data(), buffer.size())) {
            sha.update(buffer.data(), n);
            size += n;
        }
        CHECK(size == entry.size_bytes);
        std::string line = std::to_string(static_cast<int>(entry.type)) + " " +
                           std::to_string(entry.mode) + " " + entry.path + " ";
        line += size > 0 ? sha.finish().hex() : entry.link_target;
        for (const auto& [key, value] : entry.xattrs) line += fmt::format(" {}={}", key, value);
        static const std::set<std::string> kAdded = {".slipway", ".singularity.d", "singularity",
                                                     "ch"};
        if (!kAdded.contains(entry.path.substr(0, entry.path.find('/')))) lines.push_back(line);
    }
    return lines;
}

Members rich_layer() {
    Members members{dir("d", 01777), file("d/empty", ""), soft_link("d/link", "../big")};
    members.push_back(file("big", noise(50000, 1) + std::string(40000, 'x')));
    members.push_back(file("twin", noise(50000, 1) + std::string(40000, 'x')));
    members.push_back(file("holes", std::string(4096 * 5, '\0') + "end" + std::string(9000, '\0')));
    members.push_back(file("exact", noise(8192, 2)));
    for (int i = 0; i < 700; ++i)
        members.push_back(file(fmt::format("d/f{}", i), noise(i * 7 % 5000, i), 0600));
    members.push_back(hard_link("d/hard", "big"));  // "big" comes first in the walk too
    members.back().entry.mode = 0644;
    members.push_back(special(EntryType::fifo, "fifo"));
    members.push_back(special(EntryType::socket, "socket"));
    Member device = special(EntryType::char_device, "null", {}, 0666);
    device.entry.device_major = 259;
    device.entry.device_minor = 70000;
    members.push_back(device);
    Member attributes = file("attributes", "x");
    attributes.entry.xattrs = {{"user.a", "1"}, {"security.capability", std::string(20, '\1')}};
    members.push_back(attributes);
    members.push_back(file(std::string(255, 'n'), "long"));
    members.push_back(file("any\xff\x01 bytes\n", "odd"));
    return members;
}

}  // namespace

TEST_CASE("squashfs: what is written is read back") {
    const Place place;
    const std::string out = place.path("o.sqfs");
    const Members layer = rich_layer();
    const auto codec =
        GENERATE(SquashfsCodec::zstd, SquashfsCodec::gzip, SquashfsCodec::xz, SquashfsCodec::lz4);
    SquashfsOptions options = small_blocks();
    options.codec = codec;
    ImageConfig config;
    config.env = {"A=b"};
    const SquashfsReport report =
        write_squashfs(std::vector<LayerOpener>{opener(layer)}, config, out, options);
    CHECK(report.warnings.empty());
    CHECK(report.duplicate_bytes >= 90000);
    CHECK(report.output_bytes == std::filesystem::file_size(out));

    std::vector<std::string> expected;
    for (const Member& member : layer) {
        const Entry& entry = member.entry;
        expected.push_back(
            fmt::format("{} {} {} {}", static_cast<int>(entry.type), entry.mode, entry.path,
                        member.data.empty() ? entry.link_target : sha256(member.data).hex()));
        for (const auto& [key, value] : entry.xattrs)
            expected.back() += fmt::format(" {}={}", key, value);
    }
    auto found = contents(out);
    CHECK(found.front() == "1 493  ");  // the root
    found.erase(found.begin());
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    CHECK(found == expected);

    const SquashfsImage image(sys::open(out, O_RDONLY), out);
    CHECK(image.info().inodes == report.inodes);
    CHECK(image.config()->env == config.env);
    CHECK(image.read_file("/exact") == noise(8192, 2));
    CHECK(image.read_file("d/f699") == noise(699 * 7 % 5000, 699));
    CHECK_FALSE(image.read_file("d/f700"));
    CHECK_FALSE(image.read_file("d/link/x"));
    CHECK(place.files() == 1);
}

TEST_CASE("squashfs: the same bytes on any number of threads and from cached packs") {
    const Place place;
    const std::vector<LayerInput> layers{
        keyed("one", opener(rich_layer())),
        keyed("two", opener({file("big", noise(70000, 9)), file("d/.wh.f3", "")}))};
    std::string first;
    for (const unsigned threads : {1u, 2u, 4u}) {
        const std::string out = place.path("o.sqfs");
        write_squashfs(layers, {}, out, small_blocks(threads));
        const std::string bytes = read_file(out);
        if (first.empty()) first = bytes;
        CHECK(bytes == first);
    }
    SquashfsOptions cached = small_blocks();
    cached.pack_directory = place.path("packs");
    write_squashfs(layers, {}, place.path("c.sqfs"), cached);
    CHECK(read_file(place.path("c.sqfs")) == first);
    const LayerOpener never = []() -> std::unique_ptr<EntrySource> {
        throw Error(ErrorKind::internal, "opened although its pack is there");
    };
    write_squashfs(std::vector<LayerInput>{keyed("one", never), keyed("two", never)}, {},
                   place.path("c.sqfs"), cached);
    CHECK(read_file(place.path("c.sqfs")) == first);
    SECTION("a damaged pack is made again") {
        for (const auto& file : std::filesystem::directory_iterator(cached.pack_directory))
            std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 9);
        write_squashfs(layers, {}, place.path("c.sqfs"), cached);
        CHECK(read_file(place.path("c.sqfs")) == first);
    }
    SECTION("so is one whose blocks have changed") {
        for (const auto& pack : std::filesystem::directory_iterator(cached.pack_directory)) {
            const UniqueFd fd = sys::open(pack.path(), O_RDWR);
            char byte = 0;
            REQUIRE(sys::pread(fd.get(), &byte, 1, 5000, "pack") == 1);
            byte = static_cast<char>(byte ^ 4);
            sys::pwrite_all(fd.get(), &byte, 1, 5000, "pack");
        }
        const auto report = write_squashfs(layers, {}, place.path("c.sqfs"), cached);
        CHECK(read_file(place.path("c.sqfs")) == first);
        CHECK(report.packed_bytes > 0);
        CHECK(write_squashfs(layers, {}, place.path("c.sqfs"), cached).packed_bytes == 0);
    }
    SECTION("another codec has another pack") {
        cached.codec = SquashfsCodec::gzip;
        CHECK_THROWS_WITH(write_squashfs(std::vector<LayerInput>{keyed("one", never)}, {},
                                         place.path("c.sqfs"), cached),
                          ContainsSubstring("its pack is there"));
    }
}

TEST_CASE("squashfs: the pack that was used least recently goes first") {
    const Place place;
    SquashfsOptions options = small_blocks();
    options.pack_directory = place.path("packs");
    const auto packs = [&] {
        std::string names;
        for (const auto& pack : std::filesystem::directory_iterator(options.pack_directory))
            names += pack.path().filename().string().substr(0, 1);
        std::sort(names.begin(), names.end());
        return names;
    };
    const auto write = [&](const std::string& keys) {
        std::vector<LayerInput> layers;
        for (const char key : keys)
            layers.push_back(keyed(std::string(1, key),
                                   opener({file(std::string(1, key), noise(1000000, key))})));
        write_squashfs(layers, {}, place.path("o.sqfs"), options);
    };
    write("a");
    write("b");
    write("c");
    CHECK(packs() == "abc");
    write("a");  // used again: b is the oldest now
    options.pack_limit_bytes = 3'500'000;
    write("d");
    CHECK(packs() == "acd");
    std::string dead = packs().substr(0, 1) + "-x.pack.";
    {
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {  // as if killed between the file's two names
            write_file_atomic(options.pack_directory + "/" + dead + temporary_name(), "dead");
            ::_exit(0);
        }
        REQUIRE(::waitpid(child, nullptr, 0) == child);
    }
    CHECK(packs() == "aacd");
    write("c");
    CHECK(packs() == "acd");
    options.pack_limit_bytes = 100;  // less than one
    write("a");
    CHECK(packs() == "");
    options.pack_limit_bytes = 0;
    write("a");
    CHECK(packs() == "");
    CHECK(contents(place.path("o.sqfs")).size() == 2);
}

TEST_CASE("squashfs: the limit of the pack cache is a size") {
    const auto limit = [](const char* text) {
        ::setenv("SLIPWAY_PACK_CACHE", text, 1);
        return pack_limit_from_environment();
    };
    CHECK(limit("") == SquashfsOptions{}.pack_limit_bytes);
    CHECK(limit("0") == 0);
    CHECK(limit("700") == 700);
    CHECK(limit("3K") == 3072);
    CHECK(limit("2T") == uint64_t{2} << 40);
    for (const char* wrong : {"-1", "G", "1X", "1KM", "1.5G", "9999999999T", " 1"})
        CHECK_THROWS_WITH(limit(wrong), ContainsSubstring("is no size"));
    ::unsetenv("SLIPWAY_PACK_CACHE");
}

TEST_CASE("squashfs: times are bounded by the source date epoch") {
    const Place place;
    const std::string out = place.path("o.sqfs");
    Member old = file("old", "x"), before = file("before", "x");
    old.entry.mtime = 1000;
    before.entry.mtime = -5;
    const std::vector<LayerOpener> layers{opener({file("new", "x"), old, before})};
    auto report = write_squashfs(layers, {}, out, small_blocks());
    CHECK(SquashfsImage(sys::open(out, O_RDONLY), out).info().modified == 1700000000);
    REQUIRE(report.warnings.size() == 1);
    CHECK_THAT(report.warnings[0], ContainsSubstring("1970"));
    SquashfsOptions options = small_blocks();
    options.source_date_epoch = 5000;
    write_squashfs(layers, {}, out, options);
    const auto source = open_squashfs(sys::open(out, O_RDONLY), out);
    Entry entry;
    std::map<std::string, int64_t> times;
    while (source->next(entry)) times[entry.path] = entry.mtime;
    CHECK(times["new"] == 5000);
    CHECK(times["old"] == 1000);
    CHECK(times["before"] == 0);
    CHECK(times[kConfigPathInImage] == 5000);
}

TEST_CASE("squashfs: what the format cannot hold is told once") {
    const Place place;
    Members members;
    for (const char* name : {"a", "b", "c"}) {
        members.push_back(file(name, name));
        members.back().entry.xattrs = {{"system.posix_acl_access", "acl"}, {"user.kept", "1"}};
    }
    const auto report = write_squashfs(std::vector<LayerOpener>{opener(members)}, {},
                                       place.path("o.sqfs"), small_blocks());
    REQUIRE(report.warnings.size() == 1);
    CHECK_THAT(report.warnings[0], ContainsSubstring("access control lists"));
    CHECK_THAT(contents(place.path("o.sqfs"))[1], ContainsSubstring(" user.kept=1"));
}

TEST_CASE("squashfs: a failure leaves nothing behind and the old file in place") {
    const Place place;
    const std::string out = place.path("o.sqfs");
    write_file_atomic(out, "old");
    Member cut = file("cut", noise(9000, 1));
    cut.entry.size_bytes = 10000;
    CHECK_THROWS_WITH(write_squashfs(std::vector<LayerOpener>{opener({cut})}, {}, out),
                      ContainsSubstring("\"cut\" ends before its 10000 bytes"));
    SquashfsOptions wrong;
    wrong.level = 99;
    CHECK_THROWS_WITH(write_squashfs(std::vector<LayerOpener>{opener({})}, {}, out, wrong),
                      ContainsSubstring("level 99"));
    wrong = {};
    wrong.block_size_bytes = 5000;
    CHECK_THROWS_WITH(write_squashfs(std::vector<LayerOpener>{opener({})}, {}, out, wrong),
                      ContainsSubstring("block size"));
    CHECK(read_file(out) == "old");
    CHECK(place.files() == 1);
}

TEST_CASE("squashfs: a large directory and many hard links") {
    const Place place;
    const std::string out = place.path("o.sqfs");
    Members members{file("f", "x")};
    for (int i = 0; i < 40000; ++i) members.push_back(hard_link(fmt::format("l{}", i), "f"));
    for (int i = 0; i < 3000; ++i) members.push_back(dir(fmt::format("s/d{}", i)));
    write_squashfs(std::vector<LayerOpener>{opener(members)}, {}, out, small_blocks());
    CHECK(contents(out).size() == 1 + 40001 + 1 + 3000);
    const SquashfsImage image(sys::open(out, O_RDONLY), out);
    for (const char* name : {"f", "l0", "l7", "l39999", "l20000"})
        CHECK(image.read_file(name) == "x");
    CHECK_FALSE(image.read_file("l40000"));
}
