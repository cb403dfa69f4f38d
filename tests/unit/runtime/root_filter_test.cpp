// Root emulation in a process of its own: what succeeds, and what still reaches the kernel.
// Must not: filter the test program itself.
#include "root_filter.hpp"

#include <grp.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "catch.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/process.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

/// Number of the first check that fails in a filtered child, 0 if all hold.
int filtered(const std::vector<std::function<bool()>>& checks) {
    ForkedChild child = fork_child([&]() -> int {
        install_root_filter();
        for (size_t i = 0; i < checks.size(); ++i)
            if (!checks[i]()) return static_cast<int>(i + 1);
        return 0;
    });
    return wait_forked(child).code;
}

}  // namespace

TEST_CASE("privileged calls succeed and do nothing", "[seccomp]") {
    const TempDir place(temporary_directory());
    const std::string file = place.path() + "/file", device = place.path() + "/device",
                      fifo = place.path() + "/fifo";
    write_file_atomic(file, "x");
    CHECK(filtered({
              [&] { return ::chown(file.c_str(), 1, 2) == 0; },
              [&] { return ::lchown(file.c_str(), 1, 2) == 0; },
              [] { return ::setgroups(0, nullptr) == 0; },
              [] { return ::setresgid(1, 1, 1) == 0; },
              [] { return ::setresuid(1, 1, 1) == 0; },
              [] { return ::syscall(SYS_setuid, 1) == 0; },
              [&] { return ::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0; },
              [&] { return ::access(device.c_str(), F_OK) != 0; },
              [&] { return ::mkfifo(fifo.c_str(), 0600) == 0; },
              [] { return ::syscall(SYS_kexec_load, 0, 0, nullptr, 0) == 0; },
          }) == 0);
    struct stat status {};
    REQUIRE(::stat(fifo.c_str(), &status) == 0);
    CHECK(S_ISFIFO(status.st_mode));
    REQUIRE(::stat(file.c_str(), &status) == 0);
    CHECK(status.st_uid == ::geteuid());
}

TEST_CASE("asking for the file system ids reaches the kernel", "[seccomp]") {
    CHECK(filtered({
              [] { return ::setfsuid(static_cast<uid_t>(-1)) == static_cast<int>(::geteuid()); },
              [] { return ::setfsuid(1) == 0; },
              [] { return ::setfsuid(static_cast<uid_t>(-1)) == static_cast<int>(::geteuid()); },
          }) == 0);
}

TEST_CASE("every row of the policy has a reason") {
    for (const auto& row : faked_calls()) {
        CHECK_FALSE(row.reason.empty());
        CHECK_FALSE(row.calls.empty());
    }
}
