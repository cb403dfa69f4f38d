// What killed processes leave is swept, and nothing else is.
// Must not: sweep a directory that is not the test's own.
#include "../../../src/image/temp_file.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "catch.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

std::set<std::string> names_in(const std::string& directory) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
        names.insert(entry.path().filename());
    return names;
}

/// Do something in a process that ends as if it had been killed: no destructor runs.
void in_a_process_that_dies(const std::function<void()>& work) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        try {
            work();
        } catch (...) {
            ::_exit(1);
        }
        ::_exit(0);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
}

struct Place {
    TempDir directory{temporary_directory()};
    std::string tmp = directory.path() + "/tmp", work = directory.path() + "/work";
    Place() {
        sys::mkdirat(AT_FDCWD, tmp, 0700);
        sys::mkdirat(AT_FDCWD, work, 0700);
    }
};

}  // namespace

TEST_CASE("temporary: a staged tree appears whole, or is swept with the store") {
    const Place place;
    const std::string target = place.work + "/tree/";
    in_a_process_that_dies([&] {
        // Neither of its destructors runs.
        auto* tree = new StagedTree(target, place.tmp);
        write_file_atomic(tree->path() + "/f", "x");
    });
    REQUIRE(names_in(place.work).size() == 1);
    {
        StagedTree living(target, place.tmp);
        CHECK(names_in(place.work).size() == 2);
        sweep_temporary_files(place.tmp);
        CHECK(names_in(place.work) ==
              std::set<std::string>{std::string(living.path(), place.work.size() + 1)});
        write_file_atomic(living.path() + "/g", "y");
        living.commit();
    }
    CHECK(names_in(place.work) == std::set<std::string>{"tree"});
    CHECK(read_file(target + "g") == "y");
    CHECK(names_in(place.tmp).empty());
}

TEST_CASE("temporary: a link that leads elsewhere takes nothing with it") {
    const Place place;
    write_file_atomic(place.work + "/precious", "x");
    std::string name;
    in_a_process_that_dies([&] {
        sys::symlinkat(place.work, AT_FDCWD, place.tmp + "/" + temporary_name());
        sys::symlinkat(place.work + "/precious", AT_FDCWD, place.tmp + "/" + temporary_name());
    });
    REQUIRE(names_in(place.tmp).size() == 2);
    sweep_temporary_files(place.tmp);
    CHECK(names_in(place.tmp).empty());
    CHECK(read_file(place.work + "/precious") == "x");
}

TEST_CASE("temporary: a new file has no name before it is whole") {
    const Place place;
    const std::string path = place.work + "/new";
    {
        NewFile file(path);
        sys::write_all(file.fd(), "one", 3, path);
        CHECK_FALSE(std::filesystem::exists(path));
        file.commit(0640);
    }
    CHECK(read_file(path) == "one");
    {
        NewFile file(path);
        sys::write_all(file.fd(), "two", 3, path);
        CHECK(read_file(path) == "one");
        file.commit(0600);
    }
    CHECK(read_file(path) == "two");
    { NewFile dropped(path); }
    CHECK(names_in(place.work) == std::set<std::string>{"new"});
    NewFile unnamed(path);
    const UniqueFd fd = unnamed.into_unnamed();
    sys::write_all(fd.get(), "three", 5, path);
    CHECK(read_file(path) == "two");
}

TEST_CASE("temporary: a dead process's unfinished file goes with the next for that name") {
    const Place place;
    const std::string path = place.work + "/image.sqfs";
    std::string mine = path + "." + temporary_name();
    in_a_process_that_dies([&] { write_file_atomic(path + "." + temporary_name(), "dead"); });
    for (const std::string& kept : {mine, path + ".sha256", path + ".1-2-3", path})
        write_file_atomic(kept, "kept");
    in_a_process_that_dies(
        [&] { write_file_atomic(place.work + "/other." + temporary_name(), "another's"); });
    REQUIRE(names_in(place.work).size() == 6);
    sweep_beside(path);
    CHECK(names_in(place.work).size() == 5);
    CHECK(std::filesystem::exists(mine));
}
