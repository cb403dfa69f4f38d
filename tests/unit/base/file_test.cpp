// Whole files, trees, temporary directories, locks.
// Must not: leave files behind.
#include "slipway/base/file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;

TEST_CASE("an atomic write replaces the file whole and leaves no temporary file") {
    const TempDir dir(temporary_directory());
    const std::string path = dir.path() + "/f";
    write_file_atomic(path, "one");
    write_file_atomic(path, "two", 0600);
    CHECK(read_file(path) == "two");
    const UniqueFd fd = sys::open(dir.path(), O_RDONLY | O_DIRECTORY);
    CHECK(sys::list_directory(fd.get(), dir.path()).size() == 1);
    CHECK((sys::stat_if_exists(AT_FDCWD, path)->st_mode & 0777) == 0600);
    CHECK_THROWS_AS(write_file_atomic(dir.path() + "/none/f", "x"), Error);
}

TEST_CASE("reading has a limit") {
    const TempDir dir(temporary_directory());
    write_file_atomic(dir.path() + "/f", std::string(100, 'x'));
    CHECK_THROWS_AS(read_file(dir.path() + "/f", 99), Error);
    CHECK_THROWS_AS(read_file(dir.path() + "/absent"), Error);
}

TEST_CASE("removing a tree follows no link and opens up closed directories") {
    const TempDir dir(temporary_directory());
    sys::make_directories(dir.path() + "/keep");
    write_file_atomic(dir.path() + "/keep/f", "x");
    sys::make_directories(dir.path() + "/tree/a/b");
    write_file_atomic(dir.path() + "/tree/a/b/f", "x");
    REQUIRE(::symlink("../keep", (dir.path() + "/tree/link").c_str()) == 0);
    REQUIRE(::chmod((dir.path() + "/tree/a/b").c_str(), 0555) == 0);
    REQUIRE(::chmod((dir.path() + "/tree/a").c_str(), 0000) == 0);
    remove_tree(dir.path() + "/tree");
    CHECK(::access((dir.path() + "/tree").c_str(), F_OK) != 0);
    CHECK(read_file(dir.path() + "/keep/f") == "x");
    CHECK_NOTHROW(remove_tree(dir.path() + "/absent"));
}

TEST_CASE("a temporary directory goes with its owner") {
    std::string path;
    {
        TempDir dir(temporary_directory());
        path = dir.path();
        write_file_atomic(path + "/f", "x");
        const TempDir moved(std::move(dir));
        CHECK(::access(path.c_str(), F_OK) == 0);
    }
    CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a lock held by another process is reported with its file") {
    const TempDir dir(temporary_directory());
    const std::string path = dir.path() + "/lock";
    auto [ready_read, ready_write] = sys::pipe();
    auto child = fork_child([&] {
        const FileLock lock(path, FileLock::Mode::exclusive, std::chrono::seconds(1));
        sys::write_all(ready_write.get(), "x", 1, "pipe");
        ::pause();
        return 0;
    });
    char byte = 0;
    REQUIRE(sys::read(ready_read.get(), &byte, 1, "pipe") == 1);
    using std::chrono::milliseconds;
    CHECK_THROWS_WITH(FileLock(path, FileLock::Mode::exclusive, milliseconds(30)),
                      ContainsSubstring(path));
    child.process.kill(SIGKILL);
    child.process.wait();
    CHECK_NOTHROW(FileLock(path, FileLock::Mode::exclusive, milliseconds(1000)));
}

TEST_CASE("copying takes the right bytes") {
    const TempDir dir(temporary_directory());
    write_file_atomic(dir.path() + "/from", "0123456789");
    const UniqueFd from = sys::open(dir.path() + "/from", O_RDONLY);
    const UniqueFd to = sys::open(dir.path() + "/to", O_RDWR | O_CREAT, 0600);
    copy_bytes(from.get(), 2, to.get(), 3, 4, "from");
    CHECK(read_file(dir.path() + "/to") == std::string("\0\0\0", 3) + "2345");
    CHECK_THROWS_AS(copy_bytes(from.get(), 8, to.get(), 0, 4, "from"), Error);
}
