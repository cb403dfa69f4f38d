// The IDX reader, on good files and on everything that can be wrong with one.
// Must not: train.
#include "data/idx.hpp"

#include <zlib.h>

#include "catch.hpp"
#include "random.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::train;

namespace {

std::string idx_bytes(const std::vector<uint32_t>& extents, const std::string& data,
                      uint8_t type = 0x08) {
    std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(extents.size())};
    for (uint32_t extent : extents)
        for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
    return bytes + data;
}

std::string gzip(const std::string& data) {
    z_stream stream{};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, data.size()) + 32, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

void check_refused(const std::string& bytes, const std::string& why) {
    try {
        parse_idx(bytes, "some-file");
        FAIL("accepted: " + why);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_data);
        CHECK_THAT(error.message(), ContainsSubstring("\"some-file\""));
        CHECK_THAT(error.message(), ContainsSubstring(why));
    }
}

}  // namespace

TEST_CASE("plain and gzip IDX files hold the same") {
    const std::string bytes = idx_bytes({2, 2, 3}, "abcdefghijkl");
    for (const std::string& form : {bytes, gzip(bytes)}) {
        const IdxArray array = parse_idx(form, "x");
        CHECK(array.extents == std::vector<int64_t>{2, 2, 3});
        CHECK(std::string(array.values.begin(), array.values.end()) == "abcdefghijkl");
    }
}

TEST_CASE("what is no IDX file is refused with the reason") {
    const std::string good = idx_bytes({4}, "abcd");
    check_refused("", "only 0 bytes");
    check_refused("hello, world", "magic");
    check_refused(idx_bytes({4}, "abcd", 0x0d), "0x0d");
    check_refused(idx_bytes({}, "abcd"), "0 dimensions");
    check_refused(idx_bytes({1, 1, 1, 1, 4}, "abcd"), "5 dimensions");
    check_refused(good.substr(0, 6), "header");
    check_refused(idx_bytes({0}, ""), "zero");
    check_refused(good.substr(0, 7 + 4), "4 bytes of data are declared, 3 are there (truncated?)");
    check_refused(good + "e", "4 bytes of data are declared, 5 are there");
    check_refused(idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "x"), "4 GiB");
    const std::string packed = gzip(good);
    check_refused(packed.substr(0, packed.size() - 9), "ends early");
    check_refused(packed + "tail", "follows");
    std::string damaged = packed;
    damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 0x40);
    check_refused(damaged, "damaged");
}

TEST_CASE("random bytes never crash the reader") {
    Random random(3, 1);
    for (int round = 0; round < 3000; ++round) {
        std::string bytes(random.below(40), '\0');
        for (char& byte : bytes) byte = static_cast<char>(random.next());
        if (bytes.size() > 3 && round % 2 == 0) bytes.replace(0, 4, std::string("\0\0\x08\x01", 4));
        if (bytes.size() > 2 && round % 3 == 0) bytes.replace(0, 3, "\x1f\x8b\x08");
        try {
            parse_idx(bytes, "x");
        } catch (const Error& error) {
            REQUIRE(error.kind() == ErrorKind::invalid_data);
        }
    }
}
