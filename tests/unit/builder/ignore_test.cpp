#include "ignore.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::builder;

TEST_CASE("ignore patterns, a row a case", "[ignore]") {
    struct Row {
        const char *pattern, *path;
        bool expected;
    };
    const Row rows[] = {
        {"**", "file", true},
        {"**", "dir/file", true},
        {"**/", "dir/file", true},
        {"**/**", "dir/file", true},
        {"dir/**", "dir/file", true},
        {"dir/**", "dir/d2/f", true},
        {"**/dir", "dir/file", true},
        {"**/dir2/*", "dir/dir2/file", true},
        {"**file", "xfile", true},
        {"**/file", "xfile", false},
        {"**/file*txt", "d/filetxt", true},
        {"a**/*.txt", "abcdef/abc.txt", true},
        {"a[b-d]e", "ace", true},
        {"a[b-d]e", "aae", false},
        {"a[^b]e", "ace", true},
        {"a\\*b", "a*b", true},
        {"a\\*b", "axb", false},
        {"*.go", "d/x.go", false},
        {"*.go", "x.go", true},
        {"d", "d/x/y", true},
        {"/d", "d/x", true},
        {"d/", "d/x", true},
        {"a?c", "abc", true},
        {"a?c", "a/c", false},
        {"./x", "x", true},
        {"abc.def", "abcZdef", false},
        {"한*", "한국", true},
    };
    for (const Row& row : rows) {
        INFO(row.pattern << " on " << row.path);
        CHECK(IgnorePatterns({row.pattern}, "t").matches(row.path) == row.expected);
    }
}

TEST_CASE("the last match decides, ! takes back", "[ignore]") {
    const auto patterns = IgnorePatterns::parse_file("# c\n*\n!keep\nkeep/not\n !spaced \n", "t");
    CHECK(patterns.matches("x"));
    CHECK_FALSE(patterns.matches("keep/this"));
    CHECK(patterns.matches("keep/not/this"));
    CHECK_FALSE(patterns.matches("spaced"));
    CHECK(patterns.may_take_back_below("keep") == false);
    CHECK(IgnorePatterns({"a", "!a/b/c"}, "t").may_take_back_below("a"));
}

TEST_CASE("malformed patterns are errors", "[ignore]") {
    for (const char* pattern : {"[x-]", "[-x]", "[", "[]a]", "a\\", "!"}) {
        INFO(pattern);
        CHECK_THROWS_AS(IgnorePatterns({pattern}, "t"), Error);
    }
}

TEST_CASE("wildcards of sources stay within a directory", "[ignore]") {
    CHECK(match_wildcard("*.txt", "a.txt"));
    CHECK_FALSE(match_wildcard("*", "a/b"));
    CHECK(match_wildcard("a/*", "a/b"));
    CHECK(match_wildcard("!x", "!x"));
}
