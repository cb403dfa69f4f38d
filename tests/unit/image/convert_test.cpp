// Conversion between formats, and runnable images.
// Must not: mount anything; tests/system/formats.py compares with other tools.
#include "slipway/image/convert.hpp"

#include <unistd.h>

#include <optional>

#include "../../../src/image/oci/model.hpp"
#include "catch.hpp"
#include "fixture.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

/// A store with an image of two layers, the second of which takes something away.
struct Setup {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    Setup() {
        ImageConfig config;
        config.env = {"PATH=/bin"};
        config.cmd = {"/bin/x"};
        store.tag("two", config,
                  {add({directory("bin"), file("bin/x", "#!x", 0755), hardlink("bin/y", "bin/x"),
                        file("old", "1"), symlink_to("lib", "bin")}),
                   add({file(".wh.old", ""), file("new", "2")})});
    }
    static Item symlink_to(const std::string& path, const std::string& target) {
        return soft_link(path, target);
    }
    Layer add(const std::vector<Item>& items) {
        return store.add_layer([&](int fd) {
            LayerWriter writer(fd, LayerCompression::gzip);
            ItemSource source(items);
            writer.add_all(source);
            return writer.finish();
        });
    }
    ConvertReport run(const std::string& from, const std::string& to) {
        return convert(from, to, store, {});
    }
    void check_tree(const std::string& root) {
        CHECK(read_file(root + "/bin/x") == "#!x");
        CHECK((status_of(root + "/bin/x").st_mode & 07777) == 0755);
        CHECK(status_of(root + "/bin/y").st_ino == status_of(root + "/bin/x").st_ino);
        CHECK(!exists(root + "/old"));
        CHECK(read_file(root + "/new") == "2");
        CHECK(sys::readlinkat(AT_FDCWD, root + "/lib") == "bin");
        ImageConfig config = config_from_json(
            parse_json(read_file(root + "/" + kConfigPathInImage), "config"), "config");
        CHECK(config.cmd == std::vector<std::string>{"/bin/x"});
    }
};

}  // namespace

TEST_CASE("convert: every destination, and back to a directory") {
    Setup setup;
    Scratch& scratch = setup.scratch;
    setup.run("two", scratch / "dir");
    setup.check_tree(scratch / "dir");

    setup.run("two", "oci:" + (scratch / "layout") + ":t");
    CHECK(open_oci_layout(scratch / "layout", "t").manifest_digest ==
          setup.store.get("two").manifest_digest);
    setup.run("oci:" + (scratch / "layout"), "store:copy");
    CHECK(setup.store.get("copy").config.cmd == std::vector<std::string>{"/bin/x"});

    ConvertReport report = setup.run("oci:" + (scratch / "layout"), scratch / "image.sqfs");
    CHECK_THAT(report.text, ContainsSubstring("image.sqfs"));
    setup.run(scratch / "image.sqfs", scratch / "dir2");
    setup.check_tree(scratch / "dir2");
    setup.run(scratch / "image.sqfs", "oci:" + (scratch / "layout2"));
    setup.run("oci:" + (scratch / "layout2"), scratch.dir("dir3"));
    setup.check_tree(scratch / "dir3");
    setup.run(scratch / "dir", "store:from-directory");
    setup.run("from-directory", scratch / "dir4");
    setup.check_tree(scratch / "dir4");
    setup.run(scratch / "dir", scratch / "dir.sqfs");
    setup.run(scratch / "dir.sqfs", scratch / "dir5");
    setup.check_tree(scratch / "dir5");
}

TEST_CASE("convert: the caller's files are root's in the image") {
    Setup setup;
    std::string tree = setup.scratch.dir("tree");
    spit(tree + "/f", "x");
    setup.run(tree, "store:tree");
    auto image = setup.store.get("tree");
    for (const Item& item : drain(*open_image_layer(image, 0))) {
        CHECK(item.entry.uid == 0);
        CHECK(item.entry.gid == 0);
    }
}

TEST_CASE("convert: nothing is overwritten, and nothing half done is left") {
    Setup setup;
    Scratch& scratch = setup.scratch;
    std::string work = scratch.dir("work");
    spit(work + "/there.sqfs", "x");
    sys::make_directories(work + "/full/x");
    for (std::string taken : {"/there.sqfs", "/full"}) {
        Error error = error_of([&] { setup.run("two", work + taken); });
        CHECK(error.kind() == ErrorKind::already_exists);
        CHECK(!error.hint().empty());
    }
    CHECK(read_file(work + "/there.sqfs") == "x");
    CHECK(error_of([&] { setup.run("two", work + "/no/where"); }).kind() == ErrorKind::not_found);
    CHECK(error_of([&] { setup.run("two", "docker://x"); }).kind() == ErrorKind::unsupported);
    CHECK(error_of([&] { setup.run("docker://localhost:1/x", work + "/d"); }).kind() ==
          ErrorKind::io);
    CHECK(error_of([&] { setup.run("/", work + "/d"); }).kind() == ErrorKind::unsupported);

    setup.store.tag("broken", {}, {setup.add({file("a", "1")}), setup.add({hardlink("h", "no")})});
    for (std::string target : {work + "/out", work + "/out.sqfs"}) {
        INFO(target);
        CHECK(error_of([&] { setup.run("broken", target); }).kind() == ErrorKind::invalid_archive);
    }
    UniqueFd fd = sys::open(work, O_RDONLY | O_DIRECTORY);
    CHECK(sys::list_directory(fd.get(), work) == std::vector<std::string>{"full", "there.sqfs"});
}

TEST_CASE("convert: an image's own .slipway cannot redirect the config") {
    Setup setup;
    std::string victim = setup.scratch / "victim";
    spit(victim, "untouched");
    setup.store.tag("hostile", {},
                    {setup.add({directory(".slipway"), soft_link(".slipway/image.json", victim)})});
    setup.run("hostile", setup.scratch / "out");
    CHECK(read_file(victim) == "untouched");
    CHECK(S_ISREG(status_of(setup.scratch / "out/.slipway/image.json").st_mode));
}

TEST_CASE("runnable: layers become one squashfs, once") {
    Setup setup;
    RunnableImage first = make_runnable(parse_image_ref("two"), setup.store.directory());
    CHECK(first.kind == RunnableImage::Kind::squashfs);
    CHECK(first.config.cmd == std::vector<std::string>{"/bin/x"});
    CHECK(exists(first.path));
    RunnableImage again = make_runnable(parse_image_ref("two"), setup.store.directory());
    CHECK(again.identity == first.identity);

    setup.run("two", setup.scratch / "dir");
    RunnableImage directory =
        make_runnable(parse_image_ref(setup.scratch / "dir"), setup.store.directory());
    CHECK(directory.kind == RunnableImage::Kind::directory);
    CHECK(directory.config.cmd == first.config.cmd);
    sys::utimensat_nofollow(AT_FDCWD, setup.scratch / "dir", 1000, 0);
    CHECK(make_runnable(parse_image_ref(setup.scratch / "dir"), setup.store.directory()).identity ==
          directory.identity);
    RunnableImage squashfs = make_runnable(parse_image_ref(first.path), setup.store.directory());
    CHECK(squashfs.config.cmd == first.config.cmd);
    CHECK(squashfs.identity == first.identity);
    CHECK(make_runnable(parse_image_ref("/"), setup.store.directory()).kind ==
          RunnableImage::Kind::host);
    CHECK(error_of([&] {
              make_runnable(parse_image_ref("docker://localhost:1/x"), setup.store.directory());
          }).kind() == ErrorKind::io);
}

TEST_CASE("runnable: the squashfs stays while somebody has it, whoever wants to delete it") {
    Setup setup;
    const auto runnable = [&] {
        return make_runnable(parse_image_ref("two"), setup.store.directory());
    };
    std::optional<RunnableImage> image = runnable();
    REQUIRE(image->hold != nullptr);
    std::optional<RunnableImage> copy = image;
    GcOptions all;
    all.keep_bytes = 0;
    image.reset();
    setup.store.collect_garbage(all);
    CHECK(exists(copy->path));
    CHECK(runnable().identity == copy->identity);
    setup.store.remove("two");
    const std::string path = copy->path;
    CHECK(exists(path));
    copy.reset();
    all.dry_run = true;
    CHECK(setup.store.collect_garbage(all).deleted.size() == 1);
    CHECK(exists(path));
    all.dry_run = false;
    setup.store.collect_garbage(all);
    CHECK(!exists(path));
}
