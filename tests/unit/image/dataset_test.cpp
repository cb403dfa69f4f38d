// Natural order, and what is worth compressing.
// Must not: fetch anything.
#include <algorithm>
#include <string>
#include <vector>

#include "../../../src/image/dataset/source.hpp"
#include "catch.hpp"

using namespace slipway::image;

TEST_CASE("natural order") {
    std::vector<std::string> names{"img10",
                                   "img2",
                                   "img1",
                                   "b",
                                   "img02",
                                   "",
                                   "img2a",
                                   "a9",
                                   "a10b2",
                                   "a10b10",
                                   "img99999999999999999999999",
                                   "img100000000000000000000000"};
    std::sort(names.begin(), names.end(), natural_less);
    CHECK(names == std::vector<std::string>{"", "a9", "a10b2", "a10b10", "b", "img1", "img02",
                                            "img2", "img2a", "img10", "img99999999999999999999999",
                                            "img100000000000000000000000"});
    for (const auto& a : names) {
        CHECK_FALSE(natural_less(a, a));
        for (const auto& b : names) CHECK((a == b || natural_less(a, b) != natural_less(b, a)));
    }
}

TEST_CASE("what is compressed already") {
    std::string noise(100000, '\0');
    uint32_t state = 7;
    for (char& byte : noise) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    CHECK(is_compressed_already(noise));
    CHECK(is_compressed_already("\xff\xd8\xff\xe0" + std::string(1000, 'a')));
    CHECK(is_compressed_already("RIFF....WEBP" + std::string(1000, 'a')));
    CHECK_FALSE(is_compressed_already(std::string(100000, 'a')));
    CHECK_FALSE(is_compressed_already("short"));
    CHECK_FALSE(is_compressed_already(""));
    std::string half = noise.substr(0, 50000) + std::string(50000, 'a');
    CHECK_FALSE(is_compressed_already(half));
}
