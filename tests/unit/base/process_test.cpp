// Children: errors come back whole, helpers are fed and heard, nobody stays.
// Must not: leave a process behind.
#include "slipway/base/process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;

TEST_CASE("an error in a child is thrown in the parent, whole") {
    auto child = fork_child([]() -> int {
        throw Error(ErrorKind::host_forbids, "no").note("because").hint("do this").exit_status(126);
    });
    try {
        wait_forked(child);
        FAIL("nothing was thrown");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::host_forbids);
        CHECK(error.notes() == std::vector<std::string>{"because"});
        CHECK(error.exit_status() == 126);
    }
}

TEST_CASE("exit codes and signals") {
    auto seven = fork_child([] { return 7; });
    CHECK(wait_forked(seven).shell_code() == 7);
    auto killed = fork_child([]() -> int {
        ::raise(SIGKILL);
        return 0;
    });
    const ExitStatus status = wait_forked(killed);
    CHECK(status.shell_code() == 128 + SIGKILL);
    CHECK(status.describe() == "killed by signal 9 (SIGKILL)");
}

TEST_CASE("a child that nobody waited for is killed and reaped") {
    pid_t pid = 0;
    {
        const auto child = fork_child([] {
            ::pause();
            return 0;
        });
        pid = child.process.pid();
        CHECK(::kill(pid, 0) == 0);
    }
    CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("a helper is fed more than a pipe holds and heard on both outputs") {
    const std::string input(300000, 'x');
    CommandOptions options;
    options.argv = {"sh", "-c", "echo to-err >&2; cat"};
    options.input = input;
    options.capture_errors = true;
    const CommandResult result = run_command(options);
    CHECK(result.status.success());
    CHECK(result.output == input);
    CHECK(result.errors == "to-err\n");
}

TEST_CASE("a helper that reads nothing, and one that is not there") {
    CommandOptions options;
    options.argv = {"true"};
    options.input = std::string(1 << 20, 'x');
    CHECK(run_command(options).status.success());
    options.argv = {"no-such-program-here"};
    CHECK_THROWS_WITH(run_command(options), ContainsSubstring("no-such-program-here"));
}
