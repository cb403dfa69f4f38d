// Errors: rendering, round trip through the wire form, slugs against the documentation.
// Must not: depend on the language of strerror beyond the C locale.
#include "slipway/base/error.hpp"

#include <cerrno>
#include <set>

#include "catch.hpp"
#include "slipway/base/file.hpp"

using namespace slipway;

TEST_CASE("an error renders message, notes and remedy in this order") {
    const Error error = Error(ErrorKind::usage, "cannot understand \"x\"")
                            .note("requested by: --bind")
                            .hint("say y");
    CHECK(error.render() ==
          "error: cannot understand \"x\"\n  requested by: --bind\n  try: say y\n");
    CHECK(error.exit_status() == 125);
}

TEST_CASE("a system error names errno and call, and is sorted by kind") {
    errno = EACCES;
    const SysError error("cannot open \"/x\"", "openat");
    CHECK(error.message() == "cannot open \"/x\": Permission denied (EACCES, openat)");
    CHECK(error.kind() == ErrorKind::permission);
    CHECK(error.errno_value() == EACCES);
    CHECK(SysError(ENOENT, "a", "b").kind() == ErrorKind::not_found);
    CHECK(SysError(ENOSPC, "a", "write").kind() == ErrorKind::no_space);
    CHECK_FALSE(SysError(ENOSPC, "a", "write").hint().empty());
}

TEST_CASE("errnos that mislead are translated") {
    CHECK_THAT(SysError(ENOSPC, "a", "mount").message(), ContainsSubstring("too many mounts"));
    CHECK_THAT(SysError(ENOSPC, "a", "unshare").message(),
               ContainsSubstring("limit of namespaces"));
}

TEST_CASE("an error survives the way from a child to its parent") {
    const Error before =
        Error(ErrorKind::host_forbids, "m \xff").note("n1").note("n2").hint("h").exit_status(126);
    const Error after = parse_error(before.serialize());
    CHECK(after.kind() == ErrorKind::host_forbids);
    CHECK(after.notes() == before.notes());
    CHECK(after.hint() == "h");
    CHECK(after.exit_status() == 126);
    CHECK(parse_error("garbage").kind() == ErrorKind::internal);
}

TEST_CASE("quoting escapes what would confuse a terminal") {
    CHECK(quoted("a b") == "\"a b\"");
    CHECK(quoted("a\"\\\n\x1b") == "\"a\\\"\\\\\\x0a\\x1b\"");
}

TEST_CASE("every slug is in the reference, and nothing else is") {
    const std::string text = read_file(SLIPWAY_SOURCE_DIR "/docs/reference/errors.md");
    std::set<std::string> documented;
    for (size_t at = text.find("\n### `"); at != std::string::npos;
         at = text.find("\n### `", at + 1)) {
        const size_t begin = at + 6;
        documented.insert(text.substr(begin, text.find('`', begin) - begin));
    }
    std::set<std::string> known;
    for (const ErrorKind kind : all_error_kinds()) known.insert(std::string(slug(kind)));
    CHECK(documented == known);
}
