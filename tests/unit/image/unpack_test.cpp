// Unpacking layers: order, whiteouts, links, hostile names.
// Must not: mount anything.
#include <unistd.h>

#include "catch.hpp"
#include "fixture.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {
mode_t mode_of(const std::string& path) { return status_of(path).st_mode & 07777; }
bool is_whiteout(const std::string& path) {
    return S_ISCHR(status_of(path).st_mode) && status_of(path).st_rdev == 0;
}
}  // namespace

TEST_CASE("unpack: contents, modes, times, links") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    Item attributes = file("bin/x", "program", 04755);
    attributes.entry.xattrs["user.note"] = "kept";
    UnpackReport report =
        unpack({directory("", 0711), directory("bin", 0555), attributes, hardlink("bin/y", "bin/x"),
                soft_link("sbin", "bin"), file("sbin/z", "through the link"),
                make_item(EntryType::fifo, "q", 0620),
                file("holes", std::string(5'000'000, '\0') + "end")},
               root);
    CHECK(report.entries == 8);
    CHECK(mode_of(root) == 0711);
    CHECK(mode_of(root + "/bin") == 0555);
    CHECK(status_of(root + "/bin").st_mtime == 1700000000);
    CHECK(mode_of(root + "/bin/x") == 04755);
    CHECK(status_of(root + "/bin/x").st_mtime == 1700000000);
    CHECK(sys::getxattr_nofollow(root + "/bin/x", "user.note") == "kept");
    CHECK(status_of(root + "/bin/y").st_ino == status_of(root + "/bin/x").st_ino);
    CHECK(read_file(root + "/bin/z") == "through the link");
    CHECK(S_ISFIFO(status_of(root + "/q").st_mode));
    CHECK(read_file(root + "/holes") == std::string(5'000'000, '\0') + "end");
    CHECK(status_of(root + "/holes").st_blocks * 512 < 1'000'000);
}

TEST_CASE("unpack: absolute links stay inside, links are never written through at the end") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    std::string outside = scratch.dir("outside");
    spit(outside + "/victim", "untouched");
    unpack({soft_link("out", outside), soft_link("file", outside + "/victim"),
            file("file", "replaced the link")},
           root);
    CHECK(read_file(outside + "/victim") == "untouched");
    CHECK(read_file(root + "/file") == "replaced the link");
    // "out" leads to outside's path below the root, which is not there.
    Error error = error_of([&] { unpack({file("out/new", "x")}, root); });
    CHECK(error.kind() == ErrorKind::invalid_archive);
    CHECK(!exists(outside + "/new"));
    unpack({soft_link("up", "../../../../../../.."), file("up/escaped", "x")}, root);
    CHECK(read_file(root + "/escaped") == "x");
}

TEST_CASE("unpack: later entries replace earlier ones of any type") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    unpack({directory("a"), file("a/b", "1"), file("f", "2"), soft_link("l", "a"), directory("d")},
           root);
    unpack({file("a", "now a file"), directory("f"), file("f/g", "3"), directory("l"),
            file("l/x", "4"), soft_link("d", "l")},
           root);
    CHECK(read_file(root + "/a") == "now a file");
    CHECK(read_file(root + "/f/g") == "3");
    CHECK(S_ISDIR(status_of(root + "/l").st_mode));
    CHECK(S_ISLNK(status_of(root + "/d").st_mode));
}

TEST_CASE("unpack: a parent that is a file is replaced, a missing one is made") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    unpack({file("p", "file")}, root);
    unpack({file("p/q/r", "1")}, root);
    CHECK(read_file(root + "/p/q/r") == "1");
    CHECK(mode_of(root + "/p/q") == 0755);
}

TEST_CASE("unpack: whiteouts take lower layers' contents only, wherever they stand") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    unpack({directory("d"), file("d/old", "1"), directory("d/sub"), file("d/sub/old", "1"),
            file("gone", "1"), file("again", "1"), directory("keep"), file("keep/x", "1")},
           root);
    unpack({file("d/new", "2"), make_item(EntryType::file, "d/.wh..wh..opq"), file("again", "2"),
            file(".wh.again", ""), hardlink(".wh.gone", "again"), directory("keep"),
            file("keep/y", "2"), file(".wh.keep", ""), file(".wh.absent", ""),
            file("no/where/.wh.absent", "")},
           root);
    CHECK(!exists(root + "/d/old"));
    CHECK(!exists(root + "/d/sub"));
    CHECK(read_file(root + "/d/new") == "2");
    CHECK(!exists(root + "/gone"));
    CHECK(read_file(root + "/again") == "2");
    CHECK(!exists(root + "/keep/x"));
    CHECK(read_file(root + "/keep/y") == "2");
}

TEST_CASE("unpack: an opaque mark does not act through a symbolic link") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    unpack({directory("real"), file("real/x", "1"), soft_link("link", "real")}, root);
    unpack({make_item(EntryType::file, ".wh.nothing"),
            make_item(EntryType::file, "link/.wh..wh..opq")},
           root);
    CHECK(exists(root + "/real/x"));
}

TEST_CASE("unpack: a hard link outlives the target that is removed later") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    unpack({file("a", "shared"), hardlink("b", "a")}, root);
    unpack({file(".wh.a", "")}, root);
    CHECK(read_file(root + "/b") == "shared");
    unpack({file("b2", "x"), hardlink("c", "b")}, root);
    CHECK(status_of(root + "/c").st_ino == status_of(root + "/b").st_ino);
    // A whiteout of a lower file counts although this layer links it.
    unpack({hardlink("e", "c"), file(".wh.c", "")}, root);
    CHECK(!exists(root + "/c"));
    CHECK(read_file(root + "/e") == "shared");
}

TEST_CASE("unpack: a hard link to what is not there names both") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    Error error = error_of([&] { unpack({hardlink("here", "missing/file")}, root); });
    CHECK(error.kind() == ErrorKind::invalid_archive);
    CHECK_THAT(error.message(), ContainsSubstring("\"here\""));
    CHECK_THAT(error.message(), ContainsSubstring("\"missing/file\""));
    unpack({directory("d")}, root);
    CHECK(error_of([&] { unpack({hardlink("x", "d")}, root); }).kind() ==
          ErrorKind::invalid_archive);
}

TEST_CASE("unpack: overlay style makes overlayfs's marks") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    unpack({file(".wh.gone", ""), directory("opaque"), file("opaque/.wh..wh..opq", ""),
            file("opaque/x", "1"), directory("both"), file(".wh.both", ""), file(".wh.late", ""),
            directory("late"), file(".wh.file", ""), file("file", "2"), file("dir/.wh.x", ""),
            file("first/.wh..wh..opq", "")},
           root, UnpackStyle::overlay);
    CHECK(is_whiteout(root + "/gone"));
    CHECK(is_whiteout(root + "/dir/x"));
    for (std::string name : {"/opaque", "/both", "/late", "/first"}) {
        INFO(name);
        CHECK(S_ISDIR(status_of(root + name).st_mode));
        CHECK(sys::getxattr_nofollow(root + name, "user.overlay.opaque") == "y");
    }
    CHECK(read_file(root + "/file") == "2");

    // And back: the same directory read as an upper gives the same layer.
    auto items = drain(*open_overlay_upper(root));
    std::vector<std::string> paths;
    for (const Item& item : items) paths.push_back(item.entry.path);
    CHECK(std::count(paths.begin(), paths.end(), ".wh.gone") == 1);
    CHECK(std::count(paths.begin(), paths.end(), "opaque/.wh..wh..opq") == 1);
}

TEST_CASE("unpack: 0/0 devices of a layer are not taken for whiteouts") {
    Scratch scratch;
    std::string root = scratch.dir("root");
    UnpackReport report =
        unpack({make_item(EntryType::char_device, "sneaky")}, root, UnpackStyle::overlay);
    CHECK(report.devices_not_made == 1);
    CHECK(!exists(root + "/sneaky"));
}

TEST_CASE("unpack: an ordinary user's limits are counted, and shut directories opened") {
    if (::geteuid() == 0) return;  // root has no such limits; ctest runs this as both
    Scratch scratch;
    std::string root = scratch.dir("root");
    Item owned = file("owned", "1");
    owned.entry.uid = 42;
    Item device = make_item(EntryType::block_device, "disk");
    device.entry.device_major = 8;
    UnpackReport report = unpack({owned, device, directory("shut", 0000),
                                  directory("shut/in", 0500), file("shut/in/x", "1", 0000)},
                                 root);
    CHECK(report.owners_not_kept == 1);
    CHECK(report.devices_not_made == 1);
    CHECK(mode_of(root + "/shut") == 0);
    unpack({file("shut/in/y", "2"), file("shut/in/.wh.x", "")}, root);
    CHECK(mode_of(root + "/shut") == 0);
    sys::fchmodat(AT_FDCWD, root + "/shut", 0700);
    CHECK(mode_of(root + "/shut/in") == 0500);
    CHECK(!exists(root + "/shut/in/x"));
    CHECK(read_file(root + "/shut/in/y") == "2");
}
