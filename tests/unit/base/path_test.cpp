// Paths as text, and resolution beneath a root.
// Must not: leave files behind.
#include "slipway/base/path.hpp"

#include <unistd.h>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;

TEST_CASE("joining puts exactly one slash") {
    CHECK(join_path("/a", "b") == "/a/b");
    CHECK(join_path("/a/", "/b") == "/a/b");
    CHECK(join_path("/a", "") == "/a");
    CHECK(join_path("", "b") == "b");
}

TEST_CASE("normal forms") {
    CHECK(lexically_normal("/a/./b//../c") == "/a/c");
    CHECK(lexically_normal("/../..") == "/");
    CHECK(lexically_normal("a/..") == ".");
    CHECK(lexically_normal("../a") == "../a");
}

TEST_CASE("member names of archives") {
    CHECK(clean_member_path("./usr//bin/") == "usr/bin");
    CHECK(clean_member_path("/etc/passwd") == "etc/passwd");
    CHECK(clean_member_path("./").empty());
    CHECK(clean_member_path("a/..b") == "a/..b");
    for (const char* bad : {"../x", "a/../../x", "a/..", ".."})
        CHECK_THROWS_AS(clean_member_path(bad), Error);
    CHECK_THROWS_AS(clean_member_path(std::string_view("a\0b", 3)), Error);
}

TEST_CASE("base name and parent") {
    CHECK(base_name("/a/b") == "b");
    CHECK(parent_path("/a/b") == "/a");
    CHECK(parent_path("/a") == "/");
    CHECK(parent_path("a").empty());
}

TEST_CASE("a root keeps every resolution inside") {
    const TempDir dir(temporary_directory());
    sys::make_directories(dir.path() + "/usr/lib");
    REQUIRE(::symlink("usr/lib", (dir.path() + "/lib").c_str()) == 0);
    REQUIRE(::symlink("/etc/passwd", (dir.path() + "/out").c_str()) == 0);
    REQUIRE(::symlink("../../../..", (dir.path() + "/up").c_str()) == 0);
    const Root root(dir.path());
    CHECK_FALSE(root.read_file_if_exists("/out").has_value());
    CHECK(root.stat("/up/usr").has_value());
    CHECK(S_ISLNK(root.stat("/out", false)->st_mode));

    root.make_directories("/lib/x/y");
    CHECK(::access((dir.path() + "/usr/lib/x/y").c_str(), F_OK) == 0);
    CHECK_THROWS_AS(root.make_directories("/out/x"), Error);
    CHECK(::access("/etc/passwd/x", F_OK) != 0);
}
