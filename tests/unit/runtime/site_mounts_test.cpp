// Lines of mounts.d files: comments, variables, mistakes.
// Must not: read files.
#include "site_mounts.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

std::optional<std::string> lookup(const std::string& name) {
    if (name == "SCRATCH") return "/lustre/mara";
    if (name == "ODD") return "/with:colon";
    if (name == "EMPTY") return "";
    return std::nullopt;
}

std::vector<BindSpec> parse(const std::string& text) {
    return parse_site_mounts(text, "/etc/slipway/mounts.d/10.conf", lookup);
}

std::string error_of(const std::string& text) {
    try {
        parse(text);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        return error.render();
    }
    return "no error";
}

}  // namespace

TEST_CASE("a line of a mounts.d file is a bind with its origin") {
    const auto binds = parse("# comment\r\n\n  $SCRATCH \n${SCRATCH}/x:/data/$SCRATCH:ro\t\n/a:/b");
    REQUIRE(binds.size() == 3);
    CHECK(binds[0].source == "/lustre/mara");
    CHECK(binds[0].destination == "/lustre/mara");
    CHECK(binds[0].origin == "/etc/slipway/mounts.d/10.conf, line 3");
    CHECK(binds[1].source == "/lustre/mara/x");
    CHECK(binds[1].destination == "/data/lustre/mara");
    CHECK(binds[1].read_only);
    CHECK(binds[2].origin == "/etc/slipway/mounts.d/10.conf, line 5");
}

TEST_CASE("a value with a colon stays one path, and a lone dollar is itself") {
    const auto binds = parse("$ODD:/x\n/a$:/b\n/a${:/c\n/${SCRATCH:/d");
    CHECK(binds.at(0).source == "/with:colon");
    CHECK(binds.at(1).source == "/a$");
    CHECK(binds.at(2).source == "/a${");
    CHECK(binds.at(3).source == "/${SCRATCH");
}

TEST_CASE("an unset variable leaves out an optional line and is an error elsewhere") {
    const char* name = GENERATE("$UNSET", "${UNSET}", "$EMPTY");
    CHECK(parse(std::string(name) + "/x:/x:ro,optional").empty());
    const std::string message = error_of("\n" + std::string(name) + "/x:/x:ro");
    CHECK_THAT(message, ContainsSubstring("is not set"));
    CHECK_THAT(message, ContainsSubstring("mounts.d/10.conf, line 2"));
}

TEST_CASE("mistakes of a line") {
    CHECK_THAT(error_of("relative:/x"), ContainsSubstring("is not absolute"));
    CHECK_THAT(error_of("/a:/b:nosuch"), ContainsSubstring("line 1"));
    CHECK_THAT(error_of("/a:/b:ro:more"), ContainsSubstring("more than three parts"));
}
