// How layers become one tree: each known trap of OCI layers is a case.
// Must not: write files; the tree is compared as text.
#include <fmt/format.h>

#include "../../../src/image/squashfs/tree.hpp"
#include "catch.hpp"
#include "memory_source.hpp"
#include "slipway/base/error.hpp"

using namespace slipway::image;
using namespace slipway::image::squashfs;
using namespace slipway::image::test;

namespace {

void apply(Tree& tree, const Members& layer, uint32_t number) {
    std::vector<JournalEntry> journal;
    for (const Member& member : layer) {
        journal.push_back({member.entry, {}});
        journal.back().data.first_block = number * 1000 + journal.size();  // tells files apart
    }
    tree.apply_layer(std::move(journal), number);
}

Tree merged(const std::vector<Members>& layers) {
    Tree tree;
    for (uint32_t i = 0; i < layers.size(); ++i) apply(tree, layers[i], i);
    return tree;
}

/// "path/ file@LAYER ->target", one name after another.
void list(const Tree& tree, NodeId id, const std::string& path, std::string& out) {
    for (const auto& [name, child] : tree.node(id).children) {
        const Inode& inode = tree.inode_of(child);
        const std::string full = path.empty() ? name : path + "/" + name;
        if (!out.empty()) out += ' ';
        out += full;
        if (inode.entry.type == EntryType::directory) {
            out += "/";
            list(tree, child, full, out);
        } else if (inode.entry.type == EntryType::symlink) {
            out += fmt::format("->{}", inode.entry.link_target);
        } else {
            out += fmt::format("@{}", inode.pack);
        }
    }
}

std::string listing(const std::vector<Members>& layers) {
    const Tree tree = merged(layers);
    std::string out;
    list(tree, tree.root(), "", out);
    return out;
}

Member whiteout(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos
               ? file(".wh." + path, "")
               : file(path.substr(0, slash + 1) + ".wh." + path.substr(slash + 1), "");
}
Member opaque(const std::string& directory) {
    return file(directory.empty() ? ".wh..wh..opq" : directory + "/.wh..wh..opq", "");
}

}  // namespace

TEST_CASE("tree: later layers add and replace") {
    CHECK(listing({{dir("d"), file("d/a", "1"), file("d/b", "1")}, {file("d/b", "2")}}) ==
          "d/ d/a@0 d/b@1");
}

TEST_CASE("tree: whiteouts apply to older layers only, wherever they stand") {
    const Members base{dir("d"), file("d/a", "1"), file("d/b", "1")};
    CHECK(listing({base, {whiteout("d/a")}}) == "d/ d/b@0");
    CHECK(listing({base, {file("d/a", "2"), whiteout("d/a")}}) == "d/ d/a@1 d/b@0");
    CHECK(listing({base, {whiteout("d/a"), file("d/a", "2")}}) == "d/ d/a@1 d/b@0");
    CHECK(listing({base, {whiteout("d")}}) == "");
    CHECK(listing({base, {whiteout("nothing"), whiteout("no/where")}}) == "d/ d/a@0 d/b@0");
}

TEST_CASE("tree: a whiteout stored as a hard link is a whiteout") {
    CHECK(listing({{dir("d"), file("d/a", "1"), file("d/b", "1")},
                   {hard_link("d/.wh.a", "d/b")}}) == "d/ d/b@0");
}

TEST_CASE("tree: opaque directories lose what older layers put there") {
    const Members base{dir("d"), file("d/a", "1"), dir("d/e"), file("d/e/f", "1")};
    CHECK(listing({base, {dir("d"), file("d/n", "2"), opaque("d")}}) == "d/ d/n@1");
    CHECK(listing({base, {opaque("d/e")}}) == "d/ d/a@0 d/e/");
    CHECK(listing({base, {opaque(""), file("x", "2")}}) == "x@1");
}

TEST_CASE("tree: opaque and remove never reach through a symlink that they do not name") {
    const Members base{dir("usr"), dir("usr/lib"), file("usr/lib/a", "1"),
                       soft_link("lib", "usr/lib")};
    // The mark names lib, which is a link: it has no contents of its own.
    CHECK(listing({base, {opaque("lib")}}) == "lib->usr/lib usr/ usr/lib/ usr/lib/a@0");
    // The layer makes lib a directory: the link is gone, and what it led to is not ours.
    CHECK(listing({base, {dir("lib"), whiteout("lib/a"), file("lib/b", "2")}}) ==
          "lib/ lib/b@1 usr/ usr/lib/ usr/lib/a@0");
    // No such directory: lib/ is usr/lib/, as for every other entry.
    CHECK(listing({base, {whiteout("lib/a"), file("lib/b", "2")}}) ==
          "lib->usr/lib usr/ usr/lib/ usr/lib/b@1");
}

TEST_CASE("tree: parents that are symlinks are followed inside the root") {
    const Members base{dir("usr"),
                       dir("usr/lib"),
                       soft_link("lib", "usr/lib"),
                       soft_link("abs", "/usr/lib"),
                       soft_link("up", "../../../usr/lib"),
                       soft_link("dangling", "new/place")};
    CHECK(listing({base, {file("lib/a", ""), file("abs/b", ""), file("up/c", "")}}) ==
          "abs->/usr/lib dangling->new/place lib->usr/lib up->../../../usr/lib usr/ usr/lib/ "
          "usr/lib/a@1 usr/lib/b@1 usr/lib/c@1");
    CHECK(listing({{soft_link("dangling", "new/place")}, {file("dangling/f", "")}}) ==
          "dangling->new/place new/ new/place/ new/place/f@1");
    CHECK_THROWS_WITH(listing({{soft_link("a", "b"), soft_link("b", "a"), file("a/f", "")}}),
                      ContainsSubstring("too many symbolic links"));
}

TEST_CASE("tree: a parent that is no directory becomes one") {
    CHECK(listing({{file("a", "1")}, {file("a/b/c", "2")}}) == "a/ a/b/ a/b/c@1");
}

TEST_CASE("tree: a type is replaced by another") {
    CHECK(listing({{dir("d"), file("d/a", "1")}, {file("d", "2")}}) == "d@1");
    CHECK(listing({{file("d", "1")}, {dir("d"), file("d/a", "2")}}) == "d/ d/a@1");
    CHECK(listing({{dir("d"), file("d/a", "1")}, {dir("d", 0700)}}) == "d/ d/a@0");
    CHECK(listing({{dir("d"), file("d/a", "1")}, {soft_link("d", "x")}}) == "d->x");
}

TEST_CASE("tree: hard links share an inode whatever becomes of their target") {
    const Members base{file("a", "1"), hard_link("b", "a"), dir("d"), hard_link("d/c", "b")};
    Tree tree = merged({base});
    const InodeId inode = tree.node(*tree.find("a")).inode;
    CHECK(tree.node(*tree.find("b")).inode == inode);
    CHECK(tree.node(*tree.find("d/c")).inode == inode);

    SECTION("deleted later") {
        apply(tree, {whiteout("a")}, 1);
        CHECK_FALSE(tree.find("a"));
        CHECK(tree.node(*tree.find("b")).inode == inode);
    }
    SECTION("replaced later") {
        apply(tree, {file("a", "2")}, 1);
        CHECK(tree.node(*tree.find("a")).inode != inode);
        CHECK(tree.node(*tree.find("d/c")).inode == inode);
    }
    SECTION("linked to by the layer that removes it") {
        apply(tree, {whiteout("a"), hard_link("n", "a")}, 1);
        CHECK(tree.node(*tree.find("n")).inode == inode);
    }
    SECTION("linked to through a symlinked parent") {
        apply(tree, {soft_link("l", "d"), hard_link("n", "l/c")}, 1);
        CHECK(tree.node(*tree.find("n")).inode == inode);
    }
    SECTION("linked to itself") {
        apply(tree, {hard_link("a", "a")}, 1);
        CHECK(tree.node(*tree.find("a")).inode == inode);
    }
}

TEST_CASE("tree: a hard link to a symlink is that symlink") {
    CHECK(listing({{soft_link("s", "nowhere"), hard_link("t", "s")}}) == "s->nowhere t->nowhere");
}

TEST_CASE("tree: what no tree can hold is an error that names it") {
    CHECK_THROWS_WITH(listing({{hard_link("a", "gone")}}), ContainsSubstring("\"gone\""));
    CHECK_THROWS_WITH(listing({{dir("d"), hard_link("a", "d")}}), ContainsSubstring("directory"));
    CHECK_THROWS_WITH(listing({{file(std::string(256, 'n'), "")}}), ContainsSubstring("256 bytes"));
    CHECK(listing({{file(std::string(255, 'n'), "")}}).size() == 257);
    std::string deep = "d";
    for (int i = 0; i < 5000; ++i) deep += "/d";
    CHECK_THROWS_WITH(listing({{dir(deep)}}), ContainsSubstring("nested"));
    CHECK_THROWS_AS(listing({{file(".wh.", "")}}), slipway::Error);
}

TEST_CASE("tree: the root's own attributes") {
    const Tree tree = merged({{dir("", 0700)}});
    CHECK(tree.inode_of(tree.root()).entry.mode == 0700);
    CHECK_THROWS_AS(merged({{file("", "x")}}), slipway::Error);
}
