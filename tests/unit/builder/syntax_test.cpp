#include "syntax.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::builder;

TEST_CASE("flags are taken from the front, -- ends them", "[syntax]") {
    const auto tree = parse_syntax(
        "COPY --from=a --chown='x y':z -- --b /c\nRUN --mount=type=bind,source=a echo --c\n", "D");
    CHECK(tree.nodes[0].flags == std::vector<std::string>{"--from=a", "--chown=x y:z"});
    CHECK(tree.nodes[0].arguments == std::vector<std::string>{"--b", "/c"});
    CHECK(tree.nodes[1].arguments == std::vector<std::string>{"echo --c"});
}

TEST_CASE("heredocs belong to ADD, COPY, RUN and ONBUILD of them", "[syntax]") {
    const auto tree = parse_syntax(
        "RUN <<EOF\necho $X\n  EOF\nEOF\nONBUILD COPY <<-A <<'B' /\n\t1\n\tA\n2\nB\nENV A=<<B\n",
        "D");
    REQUIRE(tree.nodes.size() == 3);
    CHECK(tree.nodes[0].heredocs[0].content == "echo $X\n  EOF\n");
    CHECK(tree.nodes[0].place.last_line == 4);
    CHECK(tree.nodes[1].heredocs[0].content == "\t1\n");
    CHECK(tree.nodes[1].trigger[0].heredocs[1].content == "2\n");
    CHECK(tree.nodes[2].heredocs.empty());
    CHECK_THROWS_WITH(parse_syntax("FROM a\nRUN <<EOF\nx\n", "Dockerfile"),
                      ContainsSubstring("Dockerfile, line 2"));
    CHECK(parse_syntax("RUN [\"a\", \"<<EOF\"]\n", "D").nodes[0].heredocs.empty());
}

TEST_CASE("forms that are refused while parsing", "[syntax]") {
    for (const char* text : {"", "# only a comment\n", "CMD [\"a\", 1]\n", "ENV A\n",
                             "LABEL a=b c\n", "VOLUME [\"a\", [\"b\"]]\n"}) {
        INFO(text);
        CHECK_THROWS_AS(parse_syntax(text, "Dockerfile"), Error);
    }
}

TEST_CASE("unknown keywords pass the parser", "[syntax]") {
    CHECK(dump(parse_syntax("RUNN x\n", "D")) == "(runn \"\")\n");
}
