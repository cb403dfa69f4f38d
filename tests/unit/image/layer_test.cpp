// Writing and reading tar layers, against each other and against GNU tar.
// Must not: test unpacking.
#include "slipway/image/layer.hpp"

#include <algorithm>

#include "catch.hpp"
#include "fixture.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

std::vector<Item> mixed_tree() {
    std::vector<Item> items = {
        directory("", 0755),
        directory("bin", 01777),
        file("bin/sh", "#!/bin/true\n", 04755),
        hardlink("bin/ash", "bin/sh"),
        soft_link("lib", "usr/lib"),
        make_item(EntryType::fifo, "queue", 0600),
        file("empty", ""),
        file(std::string(90, 'd') + "/" + std::string(99, 'f'), "fits into the prefix"),
        file(std::string(300, 'x'), "needs a pax record"),
        file("caf\xc3\xa9", "UTF-8, composed"),
        file("cafe\xcc\x81", "UTF-8, decomposed"),
        file("bad\xff\xfe\n", "no UTF-8 at all"),
        soft_link("odd", "to\xff"),
        file("big", std::string(3'000'000, 'b'))};
    Item device = make_item(EntryType::char_device, "null", 0666);
    device.entry.device_major = 1;
    device.entry.device_minor = 3;
    items.push_back(device);
    Item large_ids = file("owned", "x");
    large_ids.entry.uid = 4'000'000'000u;
    large_ids.entry.gid = 7;
    large_ids.entry.mtime = -5;
    items.push_back(large_ids);
    Item attributes = file("attributes", "y");
    attributes.entry.xattrs = {{"user.name", std::string("a=b\n\0c", 6)},
                               {"security.capability", std::string("\1\0\0\2", 4)}};
    items.push_back(attributes);
    return items;
}

void require_same(const std::vector<Item>& a, const std::vector<Item>& b) {
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
        const Entry &x = a[i].entry, &y = b[i].entry;
        INFO("entry " << x.path);
        CHECK(x.path == y.path);
        CHECK(x.type == y.type);
        CHECK(x.mode == y.mode);
        CHECK(x.uid == y.uid);
        CHECK(x.gid == y.gid);
        CHECK(x.mtime == y.mtime);
        CHECK(x.size_bytes == y.size_bytes);
        CHECK(x.link_target == y.link_target);
        CHECK(x.device_major == y.device_major);
        CHECK(x.device_minor == y.device_minor);
        CHECK(x.xattrs == y.xattrs);
        CHECK(a[i].data == b[i].data);
    }
}

}  // namespace

TEST_CASE("layer: what was written is read back, in each compression") {
    Scratch scratch;
    for (auto compression :
         {LayerCompression::none, LayerCompression::gzip, LayerCompression::zstd}) {
        Layer layer = write_layer(scratch / "layer", mixed_tree(), compression);
        UniqueFd fd = sys::open(scratch / "layer", O_RDONLY);
        CHECK(layer.digest == sha256_file(fd.get(), "layer"));
        CHECK(layer.size_bytes == static_cast<uint64_t>(status_of(scratch / "layer").st_size));
        CHECK((layer.digest == layer.diff_id) == (compression == LayerCompression::none));
        require_same(read_layer(scratch / "layer"), mixed_tree());
    }
}

TEST_CASE("layer: files of every size keep their bytes and their order") {
    Scratch scratch;
    std::vector<Item> items;
    uint32_t state = 1;
    for (const size_t size : {1, 511, 512, 513, 102200, 131071, 131072, 131073, 200000, 262143,
                              262144, 262145, 300000, 700001, 5}) {
        std::string data(size, '\0');
        for (char& byte : data)
            byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
        items.push_back(file("f" + std::to_string(items.size()), data));
    }
    for (auto compression :
         {LayerCompression::none, LayerCompression::gzip, LayerCompression::zstd}) {
        write_layer(scratch / "layer", items, compression);
        require_same(read_layer(scratch / "layer"), items);
    }
}

TEST_CASE("layer: compressions agree on the diff id and gzip on its bytes") {
    Scratch scratch;
    Layer plain = write_layer(scratch / "a", mixed_tree(), LayerCompression::none);
    Layer gzip = write_layer(scratch / "b", mixed_tree(), LayerCompression::gzip);
    Layer zstd = write_layer(scratch / "c", mixed_tree(), LayerCompression::zstd);
    CHECK(plain.diff_id == gzip.diff_id);
    CHECK(plain.diff_id == zstd.diff_id);
    CHECK(gzip.digest == write_layer(scratch / "d", mixed_tree(), LayerCompression::gzip).digest);
    CHECK(gzip.media_type == "application/vnd.oci.image.layer.v1.tar+gzip");
    std::string tar = output_of({"gzip", "-dc", scratch / "b"});
    CHECK(sha256(tar) == plain.diff_id);
    std::string header = read_file(scratch / "b").substr(0, 10);
    CHECK(header.substr(4, 4) == std::string(4, '\0'));  // no time
}

TEST_CASE("layer: GNU tar extracts what we write") {
    Scratch scratch;
    write_layer(scratch / "layer.tar",
                {directory("d", 0750), file("d/" + std::string(150, 'n'), "long"),
                 file("caf\xc3\xa9", "name"), hardlink("link", "caf\xc3\xa9"),
                 soft_link("soft", std::string(200, 't'))},
                LayerCompression::none);
    std::string out = scratch.dir("out");
    output_of({"tar", "-xf", scratch / "layer.tar", "-C", out});
    CHECK(read_file(out + "/d/" + std::string(150, 'n')) == "long");
    CHECK(read_file(out + "/caf\xc3\xa9") == "name");
    CHECK(status_of(out + "/link").st_ino == status_of(out + "/caf\xc3\xa9").st_ino);
    CHECK(sys::readlinkat(AT_FDCWD, out + "/soft") == std::string(200, 't'));
    CHECK((status_of(out + "/d").st_mode & 07777) == 0750);
    CHECK(status_of(out + "/caf\xc3\xa9").st_mtime == 1700000000);
}

TEST_CASE("layer: times are clamped") {
    Scratch scratch;
    Item old = file("old", "1");
    old.entry.mtime = 5;
    write_layer(scratch / "layer", {old, file("new", "2")}, LayerCompression::gzip, 1000);
    auto items = read_layer(scratch / "layer");
    CHECK(items[0].entry.mtime == 5);
    CHECK(items[1].entry.mtime == 1000);
}

TEST_CASE("layer: a plain name costs no extended header") {
    Scratch scratch;
    Layer layer = write_layer(scratch / "layer", {file("a", "")}, LayerCompression::none);
    CHECK(layer.size_bytes == 512 + 1024);
}

TEST_CASE("layer: GNU, ustar, v7 and pax tars are read; sparse files read as zeros") {
    Scratch scratch;
    std::string tree = scratch.dir("tree");
    spit(tree + "/small", "contents");
    {
        UniqueFd sparse = create(tree + "/sparse");
        sys::ftruncate(sparse.get(), 10 << 20, "sparse");
        sys::pwrite_all(sparse.get(), "middle", 6, 5 << 20, "sparse");
    }
    sys::linkat(AT_FDCWD, tree + "/small", AT_FDCWD, tree + "/zlink");
    for (std::string format : {"gnu", "oldgnu", "ustar", "v7", "pax"}) {
        for (bool sparse : {false, true}) {
            INFO(format << (sparse ? " sparse" : ""));
            std::vector<std::string> argv = {"tar", "-cf", scratch / "t.tar", "--sort=name",
                                             "--format=" + format};
            if (sparse && (format == "ustar" || format == "v7")) continue;
            if (sparse) argv.push_back("--sparse");
            argv.insert(argv.end(), {"-C", tree, "."});
            output_of(argv);
            auto items = read_layer(scratch / "t.tar");
            REQUIRE(items.size() == 4);
            CHECK(items[0].entry.path.empty());
            CHECK(items[1].data == "contents");
            REQUIRE(items[2].entry.size_bytes == 10u << 20);
            REQUIRE(items[2].data.size() == 10u << 20);
            CHECK(items[2].data.substr(5 << 20, 6) == "middle");
            CHECK(std::count(items[2].data.begin(), items[2].data.end(), '\0') == (10 << 20) - 6);
            CHECK(items[3].entry.type == EntryType::hardlink);
            CHECK(items[3].entry.link_target == "small");
        }
    }
}

TEST_CASE("layer: several gzip members and zero padding are one stream") {
    Scratch scratch;
    write_layer(scratch / "t.tar", mixed_tree(), LayerCompression::none);
    std::string tar = read_file(scratch / "t.tar");
    for (std::string tool : {"gzip", "zstd"}) {
        spit(scratch / "a", tar.substr(0, 1'000'000));
        spit(scratch / "b", tar.substr(1'000'000));
        std::string joined = output_of({tool, "-c", scratch / "a"}) +
                             output_of({tool, "-c", scratch / "b"}) + std::string(5000, '\0');
        spit(scratch / "joined", joined);
        require_same(read_layer(scratch / "joined"), mixed_tree());
    }
}

TEST_CASE("layer: damage is told, and where") {
    Scratch scratch;
    auto compression =
        GENERATE(LayerCompression::none, LayerCompression::gzip, LayerCompression::zstd);
    write_layer(scratch / "whole", mixed_tree(), compression);
    std::string whole = read_file(scratch / "whole");
    auto read_damaged = [&](const std::string& bytes) {
        spit(scratch / "damaged", bytes);
        return error_of([&] { read_layer(scratch / "damaged"); });
    };
    SECTION("cut off") {
        for (size_t keep : {whole.size() / 2, whole.size() / 3, size_t{300}}) {
            Error error = read_damaged(whole.substr(0, keep));
            CHECK(error.kind() == ErrorKind::invalid_archive);
            CHECK_THAT(error.message(), ContainsSubstring("the test's layer"));
            CHECK(!error.hint().empty());
        }
    }
    if (compression != LayerCompression::none) {
        SECTION("the checksum at the end is missing or wrong") {
            CHECK(read_damaged(whole.substr(0, whole.size() - 2)).kind() ==
                  ErrorKind::invalid_archive);
            std::string wrong = whole;
            wrong[wrong.size() - 1] ^= 1;
            if (compression == LayerCompression::gzip) wrong[wrong.size() - 6] ^= 1;
            CHECK(read_damaged(wrong).kind() == ErrorKind::invalid_archive);
        }
        SECTION("garbage follows") {
            CHECK(read_damaged(whole + "garbage").kind() == ErrorKind::invalid_archive);
        }
    }
    SECTION("garbage from the start, and nothing at all") {
        CHECK(read_damaged("this is no tar at all, " + std::string(2000, 'x')).kind() ==
              ErrorKind::invalid_archive);
        CHECK(read_damaged("").kind() == ErrorKind::invalid_archive);
    }
}

TEST_CASE(
    "layer: a compressed layer cut at any byte, or changed in any byte, gives no other contents") {
    Scratch scratch;
    auto compression = GENERATE(LayerCompression::gzip, LayerCompression::zstd);
    write_layer(scratch / "whole", {file("a", "some contents"), soft_link("b", "a")}, compression);
    std::string whole = read_file(scratch / "whole");
    for (size_t at = 0; at < whole.size(); ++at) {
        INFO("byte " << at << " of " << whole.size());
        spit(scratch / "cut", whole.substr(0, at));
        CHECK(error_of([&] { read_layer(scratch / "cut"); }).kind() == ErrorKind::invalid_archive);
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 0x55);
        spit(scratch / "changed", changed);
        try {
            // Some bytes say nothing of the contents (gzip's time, zstd's window).
            require_same(read_layer(scratch / "changed"), read_layer(scratch / "whole"));
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::invalid_archive);
        }
    }
}

TEST_CASE("layer: names that would leave the image are refused") {
    Scratch scratch;
    std::string tree = scratch.dir("tree");
    spit(tree + "/f", "x");
    output_of({"tar", "-cPf", scratch / "up.tar", "-C", tree, "--transform=s,^f,a/../../f,", "f"});
    Error error = error_of([&] { read_layer(scratch / "up.tar"); });
    CHECK(error.kind() == ErrorKind::unsafe_path);
    CHECK_THAT(error.message(), ContainsSubstring("\"a/../../f\""));
    CHECK_THAT(error.message(), ContainsSubstring("the test's layer"));
    CHECK(!error.hint().empty());

    output_of({"tar", "-cPf", scratch / "abs.tar", "-C", tree, "--transform=s,^f,/etc/f,", "f"});
    auto items = read_layer(scratch / "abs.tar");
    REQUIRE(items.size() == 1);
    CHECK(items[0].entry.path == "etc/f");
}

TEST_CASE("layer: an empty tar is an empty layer") {
    Scratch scratch;
    write_layer(scratch / "empty", {}, LayerCompression::gzip);
    CHECK(read_layer(scratch / "empty").empty());
}

TEST_CASE("layer: a reader that stops early leaves no thread behind") {
    Scratch scratch;
    write_layer(scratch / "layer", {file("big", std::string(20'000'000, 'q'))});
    for (int i = 0; i < 20; ++i) {
        auto source = open_layer(sys::open(scratch / "layer", O_RDONLY), "layer");
        Entry entry;
        REQUIRE(source->next(entry));
    }  // a thread that was not joined would end the program here, one that waits would hang it
}

TEST_CASE("layer: a file shorter or longer than announced is our own mistake") {
    Scratch scratch;
    UniqueFd fd = create(scratch / "layer");
    Item item = file("f", "1234");
    LayerWriter writer(fd.get(), LayerCompression::none);
    writer.add(item.entry);
    writer.write("12", 2);
    CHECK(error_of([&] { writer.write("345", 3); }).kind() == ErrorKind::internal);
    CHECK(error_of([&] { writer.finish(); }).kind() == ErrorKind::internal);
}

TEST_CASE("whiteouts are told from names") {
    using Kind = Whiteout::Kind;
    CHECK(classify_whiteout("a/b").kind == Kind::none);
    CHECK(classify_whiteout("a/.wh").kind == Kind::none);
    CHECK(classify_whiteout("a/.wh.b").kind == Kind::remove);
    CHECK(classify_whiteout("a/.wh.b").path == "a/b");
    CHECK(classify_whiteout(".wh.b").path == "b");
    CHECK(classify_whiteout("a/.wh..wh..opq").kind == Kind::opaque);
    CHECK(classify_whiteout("a/.wh..wh..opq").path == "a");
    CHECK(classify_whiteout(".wh..wh..opq").path.empty());
    for (std::string bad : {".wh.", "a/.wh.", "a/.wh..", "a/.wh..."}) {
        CHECK(error_of([&] { classify_whiteout(bad); }).kind() == ErrorKind::invalid_archive);
    }
}
