// Walking directories and overlay uppers.
// Must not: need an overlay mount.
#include <sys/socket.h>
#include <sys/un.h>

#include "catch.hpp"
#include "fixture.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {
std::vector<std::string> paths(const std::vector<Item>& items) {
    std::vector<std::string> list;
    for (const Item& item : items) list.push_back(item.entry.path);
    return list;
}
}  // namespace

TEST_CASE("directory: sorted bytewise, parents first, hard links by inode, sockets left out") {
    Scratch scratch;
    std::string tree = scratch.dir("tree");
    sys::make_directories(tree + "/b/c");
    spit(tree + "/b/c/deep", "1");
    spit(tree + "/b.x", "2");
    spit(tree + "/a", "3");
    spit(tree + "/bad\xff", "4");
    sys::symlinkat("/etc/passwd", AT_FDCWD, tree + "/link");
    sys::linkat(AT_FDCWD, tree + "/a", AT_FDCWD, tree + "/z");
    sys::mknodat(AT_FDCWD, tree + "/fifo", S_IFIFO | 0600, 0);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (tree + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    sys::setxattr_nofollow(tree + "/a", "user.kept", "v");
    sys::setxattr_nofollow(tree + "/a", "user.slipway.owner", "ours");
    sys::fchmodat(AT_FDCWD, tree + "/a", 02751);

    auto source = open_directory(tree);
    auto items = drain(*source);
    CHECK(paths(items) == std::vector<std::string>{"", "a", "b", "b/c", "b/c/deep", "b.x",
                                                   "bad\xff", "fifo", "link", "z"});
    CHECK(items[1].data == "3");
    CHECK(items[1].entry.mode == 02751);
    CHECK(items[1].entry.xattrs == std::map<std::string, std::string>{{"user.kept", "v"}});
    CHECK(items[4].data == "1");
    CHECK(items[8].entry.link_target == "/etc/passwd");
    CHECK(items[9].entry.type == EntryType::hardlink);
    CHECK(items[9].entry.link_target == "a");
}

TEST_CASE("directory: owners are as the caller says") {
    Scratch scratch;
    std::string tree = scratch.dir("tree");
    spit(tree + "/f", "1");
    auto source = open_directory(tree, [](const std::string& path, uint32_t, uint32_t) {
        return std::pair<uint32_t, uint32_t>(path == "f" ? 12 : 0, 34);
    });
    auto items = drain(*source);
    CHECK(items[0].entry.uid == 0);
    CHECK(items[1].entry.uid == 12);
    CHECK(items[1].entry.gid == 34);
}

TEST_CASE("directory: a deep tree costs no descriptors") {
    Scratch scratch;
    std::string path = scratch.dir("tree");
    std::string below;
    for (int i = 0; i < 1200; ++i) below += "/d";
    sys::make_directories(path + below);
    auto items = drain(*open_directory(path));
    CHECK(items.size() == 1201);
    // remove_tree of the scratch directory is recursive with a descriptor a level: go in steps.
    for (int depth = 1200; depth > 400; depth -= 400) {
        std::string at = path;
        for (int i = 0; i < depth - 400; ++i) at += "/d";
        remove_tree(at);
    }
}

TEST_CASE("overlay upper: marks become whiteouts") {
    Scratch scratch;
    std::string upper = scratch.dir("upper");
    sys::make_directories(upper + "/opaque");
    spit(upper + "/opaque/new", "1");
    sys::setxattr_nofollow(upper + "/opaque", "user.overlay.opaque", "y");
    sys::setxattr_nofollow(upper + "/opaque", "user.overlay.origin", "x");
    sys::make_directories(upper + "/xattrs");
    sys::setxattr_nofollow(upper + "/xattrs", "user.overlay.opaque", "x");
    spit(upper + "/xattrs/gone", "");
    sys::setxattr_nofollow(upper + "/xattrs/gone", "user.overlay.whiteout", "");
    sys::mknodat(AT_FDCWD, upper + "/removed", S_IFCHR, 0);

    auto items = drain(*open_overlay_upper(upper));
    CHECK(paths(items) == std::vector<std::string>{"opaque", "opaque/.wh..wh..opq", "opaque/new",
                                                   ".wh.removed", "xattrs", "xattrs/.wh.gone"});
    for (const Item& item : items) CHECK(item.entry.xattrs.empty());
    CHECK(items[1].entry.type == EntryType::file);
}

TEST_CASE("overlay upper: what cannot be a layer is refused") {
    Scratch scratch;
    std::string upper = scratch.dir("upper");
    sys::make_directories(upper + "/moved");
    sys::setxattr_nofollow(upper + "/moved", "user.overlay.redirect", "/old");
    CHECK_THROWS_AS(drain(*open_overlay_upper(upper)), Error);
}
