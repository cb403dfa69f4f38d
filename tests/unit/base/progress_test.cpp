// Amounts as people read them.
// Must not: wait.
#include "slipway/base/progress.hpp"

#include "catch.hpp"

using namespace slipway;

TEST_CASE("bytes in powers of ten") {
    CHECK(human_bytes(0) == "0 B");
    CHECK(human_bytes(999) == "999 B");
    CHECK(human_bytes(1000) == "1.0 kB");
    CHECK(human_bytes(12345678) == "12.3 MB");
    CHECK(human_bytes(999999999) == "1.0 GB");
}
