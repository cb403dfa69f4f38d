// The store: names, blobs, unpacked layers, deletion, several users of it at once.
// Must not: touch the caller's own store.
#include "slipway/image/store.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "../../../src/image/oci/model.hpp"
#include "../../../src/image/temp_file.hpp"
#include "catch.hpp"
#include "fixture.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

Layer add(Store& store, const std::vector<Item>& items) {
    return store.add_layer([&](int fd) {
        LayerWriter writer(fd, LayerCompression::gzip);
        ItemSource source(items);
        writer.add_all(source);
        return writer.finish();
    });
}

std::vector<std::string> names_in(const std::string& directory) {
    UniqueFd fd = sys::open(directory, O_RDONLY | O_DIRECTORY);
    return sys::list_directory(fd.get(), directory);
}

}  // namespace

TEST_CASE("store: images are named, found, listed, removed") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    CHECK(store.list().empty());
    Layer base = add(store, {file("base", "1")});
    Layer top = add(store, {file("top", "2")});
    ImageConfig config;
    config.env = {"A=1"};
    config.created = "2024-01-01T00:00:00Z";
    OciImage made = store.tag("digits", config, {base, top});
    CHECK(made.config.diff_ids == std::vector<Digest>{base.diff_id, top.diff_id});
    store.tag("lab/other:v2", config, {base});

    OciImage image = store.get("digits:latest");
    CHECK(image.layers == std::vector<Layer>{base, top});
    CHECK(image.config.env == config.env);
    CHECK(!store.find("nothing"));
    auto list = store.list();
    REQUIRE(list.size() == 2);
    CHECK(list[0].name == "digits:latest");
    CHECK(list[0].size_bytes == base.size_bytes + top.size_bytes);
    CHECK(list[0].created == "2024-01-01T00:00:00Z");

    store.unpacked_layer(top);
    store.remove("digits");
    CHECK(!store.find("digits"));
    CHECK(store.has_blob(base.digest));
    CHECK(!store.has_blob(top.digest));
    CHECK(!exists(scratch / ("store/unpacked/" + top.diff_id.hex())));
    CHECK(store.get("lab/other:v2").layers.size() == 1);
    store.remove("lab/other:v2");
    CHECK(names_in(scratch / "store/oci/blobs/sha256").empty());
    CHECK(names_in(scratch / "store/tmp").empty());
}

TEST_CASE("store: an unknown name is answered with near ones and a remedy") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    store.tag("digits", {}, {add(store, {})});
    for (std::string near : {"digit", "digits:v2", "digts"}) {
        Error error = error_of([&] { store.get(near); });
        CHECK(error.kind() == ErrorKind::not_found);
        CHECK_THAT(error.render(), ContainsSubstring("near it: digits:latest"));
        CHECK_THAT(error.hint(), ContainsSubstring("slipway images"));
    }
    Error far = error_of([&] { store.get("tensorflow"); });
    CHECK(far.render().find("near it") == std::string::npos);
    CHECK(error_of([&] { store.remove("digit"); }).kind() == ErrorKind::not_found);
}

TEST_CASE("store: the build cache keeps blobs until it is pruned") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    Layer kept = add(store, {file("k", "1")}), gone = add(store, {file("g", "2")});
    store.tag("x", {}, {kept, gone});
    spit(store.subdirectory("cache") + "/key.json",
         to_text({{"layer", {{"digest", kept.digest.text()}, {"diff_id", kept.diff_id.text()}}}}));
    spit(store.subdirectory("cache") + "/broken.json", "{");
    std::string unpacked = store.unpacked_layer(kept);
    store.remove("x");
    CHECK(store.has_blob(kept.digest));
    CHECK(exists(unpacked));
    CHECK(!store.has_blob(gone.digest));
    store.collect_garbage({});
    CHECK(!store.has_blob(kept.digest));
    CHECK(!exists(unpacked));
    CHECK(names_in(scratch / "store/cache").empty());
}

TEST_CASE("store: nothing is deleted while another one adds") {
    Scratch scratch;
    Store builder = Store::open(scratch / "store");
    Layer not_yet_named = add(builder, {file("n", "1")});
    {
        Store other = Store::open(scratch / "store");
        other.tag("x", {}, {add(other, {file("x", "2")})});
        other.remove("x");
    }
    CHECK(builder.has_blob(not_yet_named.digest));
    builder.tag("mine", {}, {not_yet_named});
    CHECK(builder.get("mine").layers.size() == 1);
    builder.remove("mine");
    CHECK(names_in(scratch / "store/oci/blobs/sha256").empty());
}

TEST_CASE("store: layers are unpacked once and in overlay style; uppers are adopted") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    Layer layer = add(store, {directory("d", 0555), file("d/f", "1"), file(".wh.gone", "")});
    std::string path = store.unpacked_layer(layer);
    CHECK(read_file(path + "/d/f") == "1");
    CHECK(S_ISCHR(status_of(path + "/gone").st_mode));
    CHECK((status_of(path).st_mode & 07777) == 0755);
    spit(path + "/marker", "");
    CHECK(store.unpacked_layer(layer) == path);
    CHECK(exists(path + "/marker"));

    Layer next = add(store, {file("u", "2")});
    std::string upper = store.subdirectory("tmp") + "/upper";
    sys::make_directories(upper);
    spit(upper + "/u", "2");
    store.adopt_unpacked(next, upper);
    CHECK(!exists(upper));
    CHECK(read_file(store.unpacked_layer(next) + "/u") == "2");
    sys::make_directories(upper);
    store.adopt_unpacked(next, upper);
    CHECK(!exists(upper));
}

TEST_CASE("store: a layer unpacked before the machine's last start is made again, once") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    const Layer layer = add(store, {file("f", "whole")});
    const std::string path = store.unpacked_layer(layer);
    const std::string note = path + ".boot";
    REQUIRE(exists(note));
    spit(path + "/f", "");  // what a crash leaves of data that was never written
    CHECK(read_file(store.unpacked_layer(layer) + "/f").empty());  // still the same start
    spit(note, "an earlier start");
    CHECK(read_file(store.unpacked_layer(layer) + "/f") == "whole");
    CHECK(!exists(note));
    CHECK(names_in(scratch / "store/tmp").empty());

    const Layer next = add(store, {file("u", "2")});
    const std::string upper = store.subdirectory("tmp") + "/upper";
    sys::make_directories(upper);
    spit(upper + "/u", "2");
    store.adopt_unpacked(next, upper);
    spit(store.unpacked_layer(next) + ".boot", "");  // the note itself was not written
    spit(path + "/../" + next.diff_id.hex() + "/u", "");
    CHECK(read_file(store.unpacked_layer(next) + "/u") == "2");
}

TEST_CASE("store: a layer that cannot be unpacked or written leaves nothing") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    Layer bad = add(store, {hardlink("a", "missing")});
    CHECK(error_of([&] { store.unpacked_layer(bad); }).kind() == ErrorKind::invalid_archive);
    CHECK(error_of([&] {
              store.add_layer([](int fd) -> Layer {
                  sys::write_all(fd, "x", 1, "x");
                  throw Error(ErrorKind::no_space, "the disk is full");
              });
          }).kind() == ErrorKind::no_space);
    CHECK(names_in(scratch / "store/tmp").empty());
    CHECK(!exists(scratch / ("store/unpacked/" + bad.diff_id.hex())));
}

TEST_CASE("store: images come from elsewhere and several come at once") {
    Scratch scratch;
    Store first = Store::open(scratch / "first");
    OciImage image = first.tag("x", {}, {add(first, {file("x", "1")})});
    Store second = Store::open(scratch / "second");
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
            Store store = Store::open(scratch / "second");
            store.import("copy:" + std::to_string(i), image);
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(second.list().size() == 8);
    CHECK(second.get("copy:3").manifest_digest == image.manifest_digest);
    output_of({"umoci", "ls", "--layout", scratch / "second/oci"});
}

TEST_CASE("store: files of dead processes are swept, of living ones not") {
    Scratch scratch;
    Store store = Store::open(scratch / "store");
    std::string tmp = store.subdirectory("tmp");
    pid_t child = ::fork();
    if (child == 0) {
        std::string place = join_path(tmp, temporary_name());
        ::mkdir(place.c_str(), 0700);
        ::mkdir((place + "/below").c_str(), 0000);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    REQUIRE(names_in(tmp).size() == 1);
    TempFile mine(tmp);
    spit(tmp + "/foreign-new", "");
    spit(tmp + "/foreign-old", "");
    sys::utimensat_nofollow(AT_FDCWD, tmp + "/foreign-old", 1000, 0);
    Store::open(scratch / "store");
    CHECK(names_in(tmp).size() == 2);
    CHECK(exists(mine.path()));
    CHECK(exists(tmp + "/foreign-new"));
}

TEST_CASE("store: a read-only store can be read; one that cannot be made says where") {
    if (::geteuid() == 0) return;  // nothing is read-only to root
    Scratch scratch;
    {
        Store store = Store::open(scratch / "store");
        store.tag("x", {}, {add(store, {file("x", "1")})});
    }
    for (const char* name : {"", "/tmp", "/locks", "/oci", "/oci/blobs/sha256"}) {
        sys::fchmodat(AT_FDCWD, (scratch / "store") + name, 0500);
    }
    CHECK(Store::open(scratch / "store").list().size() == 1);
    CHECK(Store::open(scratch / "store").get("x").layers.size() == 1);
    for (const char* name : {"", "/tmp", "/locks", "/oci", "/oci/blobs/sha256"}) {
        sys::fchmodat(AT_FDCWD, (scratch / "store") + name, 0700);
    }
    sys::fchmodat(AT_FDCWD, scratch.dir("shut"), 0500);
    Error error = error_of([&] { Store::open(scratch / "shut/store"); });
    CHECK(error.kind() == ErrorKind::permission);
    CHECK_THAT(error.render(), ContainsSubstring("SLIPWAY_STORE"));
}
