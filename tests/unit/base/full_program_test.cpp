// The starter begins again as the full program, but never once it is inside of a container.
// Must not: make this process the starter: what is tried is tried in children.
#include "slipway/base/full_program.hpp"

#include <fcntl.h>
#include <sched.h>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;

namespace {

/// How a starter ends that does this and then needs the full program. There is none beside the
/// test: who may begin again is told so.
template <typename Before>
ErrorKind end_of_starter(Before before) {
    auto child = fork_child([&]() -> int {
        declare_starter();
        before();
        need_full_program();
        return 0;
    });
    try {
        wait_forked(child);
    } catch (const Error& error) {
        if (error.kind() == ErrorKind::internal)
            CHECK_THAT(error.message(), ContainsSubstring("after the container's namespaces"));
        return error.kind();
    }
    FAIL("it went on without the full program");
    return ErrorKind::internal;
}

}  // namespace

TEST_CASE("the starter becomes the full program until it has entered namespaces") {
    CHECK(end_of_starter([] {}) == ErrorKind::not_found);
    CHECK(end_of_starter([] { forbid_full_program(); }) == ErrorKind::internal);
    CHECK(end_of_starter([] { sys::unshare(CLONE_NEWUSER | CLONE_NEWNS); }) == ErrorKind::internal);
    CHECK(end_of_starter([] {
              const UniqueFd same = sys::open("/proc/self/ns/user", O_RDONLY);
              try {  // one's own cannot be entered; to have tried is enough
                  sys::setns(same.get(), CLONE_NEWUSER, "the test");
              } catch (const SysError&) {
              }
          }) == ErrorKind::internal);
}

TEST_CASE("the full program is never in need of itself") {
    auto child = fork_child([] {
        forbid_full_program();
        need_full_program();
        return 7;
    });
    CHECK(wait_forked(child).shell_code() == 7);
}
