// The environment by ch-run's rules; tests/conformance/ch_run.py holds them against ch-run itself.
// Must not: read the test's own environment.
#include "slipway/runtime/ch_environment.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

using Kind = ChEnvChange::Kind;
using List = std::vector<std::string>;

List changed(const List& host, const std::vector<ChEnvChange>& changes, bool expand = true) {
    ChEnvRequest request;
    request.changes = changes;
    request.expand = expand;
    request.adjust = request.mark = false;
    return plan_ch_environment(host, request);
}

std::string value_of(const std::string& assignment) {
    return changed({"BAR=bar", "EMPTY="}, {{Kind::assign, "FOO=" + assignment, "test"}})
        .back()
        .substr(4);
}

}  // namespace

TEST_CASE("ch-run's environment: the host's passes but for a few variables") {
    ChEnvRequest request;
    request.home = "/root";
    const List host = {"HOME=/home/me", "no assignment", "PATH=/usr/bin", "TMPDIR=/scratch", "A=1"};
    CHECK(plan_ch_environment(host, request) == List{"HOME=/root", "no assignment",
                                                     "PATH=/usr/bin:/bin", "A=1",
                                                     "CH_RUNNING=Weird Al Yankovic"});
    CHECK(plan_ch_environment({}, request) == List{"HOME=/root", "CH_RUNNING=Weird Al Yankovic"});
    request.adjust = false;
    CHECK(plan_ch_environment({"TMPDIR=/scratch", "GC_MARKERS=1"}, request) ==
          List{"TMPDIR=/scratch", "CH_RUNNING=Weird Al Yankovic"});
}

TEST_CASE("ch-run's environment: quotes and lists in a value") {
    CHECK(value_of("$BAR:baz") == "bar:baz");
    CHECK(value_of("baz:$UNSET:qux") == "baz:qux");
    CHECK(value_of("$EMPTY") == "");
    CHECK(value_of(":bar:baz::") == ":bar:baz::");
    CHECK(value_of(":$UNSET:") == ":");
    CHECK(value_of("''''") == "''");
    CHECK(value_of("'$BAR:x'") == "bar:x");
    CHECK(value_of("'") == "'");
    CHECK(value_of("$:x$BAR") == "$:x$BAR");
    CHECK(changed({}, {{Kind::assign, "A='$B'", ""}}, false) == List{"A=$B"});
    CHECK(changed({}, {{Kind::literal, "A='$B'", ""}}) == List{"A='$B'"});
}

TEST_CASE("ch-run's environment: changes in order, globs, errors with their origin") {
    CHECK(changed({"A=1", "AB=2", "C=3"}, {{Kind::unset, "A*", ""}, {Kind::assign, "A=$C", ""}}) ==
          List{"C=3", "A=3"});
    CHECK(changed({"A=1", "B=2", "C=3"}, {{Kind::unset, "!(A|B)", ""}}) == List{"A=1", "B=2"});
    for (const char* wrong : {"nothing", "=x", ""}) {
        try {
            changed({}, {{Kind::assign, wrong, "file:3"}});
            FAIL("accepted: " << wrong);
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::usage);
            CHECK(error.notes() == List{"requested by: file:3"});
        }
    }
}

TEST_CASE("ch-run's environment: a file's assignments know their lines") {
    const auto changes = split_ch_assignments("A=1\n\nB=2", '\n', "file");
    REQUIRE(changes.size() == 2);
    CHECK(changes[1].text == "B=2");
    CHECK(changes[1].origin == "file:3");
    CHECK(split_ch_assignments(std::string_view("A=1\n2\0B", 7), '\0', "file").size() == 2);
    CHECK(split_ch_assignments("", '\n', "file").empty());
}
