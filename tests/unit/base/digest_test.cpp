// SHA-256 against published values.
// Must not: touch files beyond a temporary one.
#include "slipway/base/digest.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;

// FIPS 180-2, appendix B.1.
static const char* const kAbc =
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_CASE("sha256 of the standard's example") {
    CHECK(sha256("abc").text() == kAbc);
    Sha256 hash;
    hash.update("a");
    hash.update("bc");
    CHECK(hash.finish().text() == kAbc);
    const TempDir dir(temporary_directory());
    write_file_atomic(dir.path() + "/f", "abc");
    CHECK(sha256_file(sys::open(dir.path() + "/f", O_RDONLY).get(), "f").hex() ==
          std::string(kAbc).substr(7));
}

TEST_CASE("digests are validated") {
    CHECK(Digest::parse(kAbc).text() == kAbc);
    CHECK_THROWS_AS(Digest::parse("sha256:12"), Error);
    CHECK_THROWS_AS(Digest::parse("sha512:" + std::string(64, 'a')), Error);
    CHECK_THROWS_AS(Digest::parse("sha256:" + std::string(64, 'A')), Error);
    CHECK_THROWS_AS(Digest::parse("sha256:../" + std::string(61, 'a')), Error);
}
