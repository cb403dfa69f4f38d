// System call wrappers: what is absent is no error, what fails names its call, descriptors travel.
// Must not: need privilege.
#include "slipway/base/sys.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

using namespace slipway;

TEST_CASE("absent files are std::nullopt; other failures name the call and the subject") {
    CHECK_FALSE(sys::openat_if_exists(AT_FDCWD, "/no/such/file", O_RDONLY));
    CHECK_FALSE(sys::stat_if_exists(AT_FDCWD, "/etc/passwd/x"));
    CHECK_THROWS_WITH(
        sys::open("/no/such/file", O_RDONLY),
        ContainsSubstring("\"/no/such/file\"") && ContainsSubstring("ENOENT, openat"));
}

TEST_CASE("openat2 keeps a path beneath its directory") {
    const TempDir dir(temporary_directory());
    const UniqueFd fd = sys::open(dir.path(), O_PATH | O_DIRECTORY);
    REQUIRE(::symlink("/etc", (dir.path() + "/etc-link").c_str()) == 0);
    CHECK_THROWS_AS(sys::openat2(fd.get(), "etc-link/passwd", O_RDONLY, RESOLVE_BENEATH), SysError);
    CHECK_FALSE(sys::openat2_if_exists(fd.get(), "etc-link/passwd", O_RDONLY, RESOLVE_IN_ROOT));
}

TEST_CASE("descriptors are close-on-exec and travel over a socket") {
    auto [left, right] = sys::socketpair(SOCK_SEQPACKET);
    auto [reader, writer] = sys::pipe();
    const std::array<std::byte, 3> data{std::byte{1}, std::byte{2}, std::byte{3}};
    const std::array<int, 1> fds{writer.get()};
    sys::send_message(left.get(), data, fds);
    std::array<std::byte, 16> got{};
    std::vector<UniqueFd> received;
    CHECK(sys::receive_message(right.get(), got, received) == 3);
    REQUIRE(received.size() == 1);
    CHECK((::fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
    writer.reset();
    sys::write_all(received[0].get(), "x", 1, "pipe");
    char byte = 0;
    CHECK(sys::read(reader.get(), &byte, 1, "pipe") == 1);
    left.reset();
    CHECK(sys::receive_message(right.get(), got, received) == 0);
}

TEST_CASE("directories are listed sorted, links read whole") {
    const TempDir dir(temporary_directory());
    const std::string target(1000, 'x');
    sys::symlinkat(target, AT_FDCWD, dir.path() + "/b");
    sys::mkdirat(AT_FDCWD, dir.path() + "/a", 0700);
    CHECK_FALSE(sys::mkdirat_if_absent(AT_FDCWD, dir.path() + "/a", 0700));
    const UniqueFd fd = sys::open(dir.path(), O_RDONLY | O_DIRECTORY);
    CHECK(sys::list_directory(fd.get(), "d") == std::vector<std::string>{"a", "b"});
    CHECK(sys::readlinkat(fd.get(), "b") == target);
}
