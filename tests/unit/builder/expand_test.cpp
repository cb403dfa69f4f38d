#include "expand.hpp"

#include "catch.hpp"
#include "glob.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::builder;

TEST_CASE("every operator of ${}", "[expand]") {
    struct Row {
        const char *input, *expected;
    };
    const Variables variables = {{"FOO", "xxyy"},
                                 {"EMPTY", ""},
                                 {"X", "x"},
                                 {"PATHS", "/tmp/tmp/bar.txt"},
                                 {"TMP", "/tmp"},
                                 {"STARS", "a***yy*"},
                                 {"URL", "http://a.b"},
                                 {"LIKE", "/?mp"}};
    const Row rows[] = {
        {"${FOO:-a} ${EMPTY:-b} ${NONE:-c}", "xxyy b c"},
        {"${FOO-a} ${EMPTY-b} ${NONE-c}", "xxyy  c"},
        {"${FOO:+a} ${EMPTY:+b} ${NONE:+c}", "a  "},
        {"${FOO+a} ${EMPTY+b} ${NONE+c}", "a b "},
        {"${FOO?a}${EMPTY?b}", "xxyy"},
        {"${FOO#*x*y}", "y"},
        {"${FOO#*}", "xxyy"},
        {"${FOO##*x}", "yy"},
        {"${FOO#$X}", "xyy"},
        {"${FOO%y*}", "xxy"},
        {"${FOO%%y*}", "xx"},
        {"${FOO%$EMPTY}", "xxyy"},
        {"${STARS%%\\**\\*}", "a"},
        {"${PATHS/$TMP/}", "/tmp/bar.txt"},
        {"${PATHS//$TMP/}", "/bar.txt"},
        {"${PATHS/$LIKE/}", "/tmp/bar.txt"},
        {"${URL/http:\\/\\//https://}", "https://a.b"},
        {"${FOO/$EMPTY/ww}", "wwxxyy"},
        {"${FOO//y/z}", "xxzz"},
        {"${FOO///}", "xxyy"},
    };
    for (const Row& row : rows) {
        INFO(row.input);
        CHECK(expand(row.input, variables).text == row.expected);
    }
}

TEST_CASE("substitutions that are errors", "[expand]") {
    const Variables variables = {{"FOO", "xxyy"}, {"EMPTY", ""}};
    for (const char* input : {"${FOO=a}", "${FOO:=a}", "${FOO:#x}", "${FOO:%x}", "${NONE?}",
                              "${EMPTY:?}", "${FOO//ww}", "${FOO#\\x}", "${FOO", "'open"}) {
        INFO(input);
        CHECK_THROWS_AS(expand(input, variables), Error);
    }
    CHECK_THROWS_WITH(expand("${NONE:?say $FOO}", variables), ContainsSubstring("say xxyy"));
}

TEST_CASE("what was used and what was missing", "[expand]") {
    const Expansion result = expand("$A ${B:-$C}", {{"A", "1"}, {"C", "3"}});
    CHECK(result.text == "1 3");
    CHECK(result.used == std::set<std::string>{"A", "C"});
    CHECK(result.missing == std::set<std::string>{"B"});
}

TEST_CASE("the backtick as escape character", "[expand]") {
    ExpandOptions options;
    options.escape = '`';
    CHECK(expand("c:\\dir `$X", {{"X", "1"}}, options).text == "c:\\dir $X");
}

TEST_CASE("patterns in values replace as regular expressions do", "[expand]") {
    CHECK(ValuePattern("").replaced("ab", "-", true) == "-a-b-");
    CHECK(ValuePattern("*").replaced("ab", "-", true) == "-");
    CHECK(ValuePattern("?").replaced("añb", "-", true) == "---");
    CHECK(ValuePattern("a").without_suffix("bab", true) == "bab");
}
