// Checkpoints: round trip, and every kind of damage.
// Must not: train.
#include "checkpoint.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

using namespace slipway;
using namespace slipway::train;

namespace {

Checkpoint example() {
    Checkpoint checkpoint{"lenet", {1, 8, 8}, 10,   3, 0xfedcba9876543210u, 4, 64,
                          0.05,    0.9,       1e-4, {}};
    checkpoint.parameters.push_back({"a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}});
    checkpoint.parameters.push_back({"a.bias", {2}, {-1, 0.1f}, {0, 0}});
    return checkpoint;
}

void check_refused(const std::string& bytes, const std::string& why) {
    try {
        decode_checkpoint(bytes, "x.ckpt");
        FAIL("a broken checkpoint was accepted");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_data);
        CHECK_THAT(error.message(), ContainsSubstring("\"x.ckpt\""));
        CHECK_THAT(error.message(), ContainsSubstring(why));
    }
}

}  // namespace

TEST_CASE("a checkpoint comes back as it was") {
    const Checkpoint before = example();
    const Checkpoint after = decode_checkpoint(encode_checkpoint(before), "x");
    CHECK(after.model == before.model);
    CHECK(after.image == before.image);
    CHECK(after.seed == before.seed);
    CHECK(after.epoch == 3);
    CHECK(after.ranks == 4);
    CHECK(after.learning_rate == before.learning_rate);
    REQUIRE(after.parameters.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
        CHECK(after.parameters[i].name == before.parameters[i].name);
        CHECK(after.parameters[i].dims == before.parameters[i].dims);
        CHECK(after.parameters[i].value == before.parameters[i].value);
        CHECK(after.parameters[i].velocity == before.parameters[i].velocity);
    }
}

TEST_CASE("a damaged checkpoint is refused, wherever the damage is") {
    const std::string good = encode_checkpoint(example());
    for (size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 1);
        CHECK_THROWS_AS(decode_checkpoint(bad, "x"), Error);
    }
    for (size_t size = 0; size < good.size(); ++size)
        CHECK_THROWS_AS(decode_checkpoint(good.substr(0, size), "x"), Error);
}

TEST_CASE("a checkpoint's error says what is wrong") {
    const std::string good = encode_checkpoint(example());
    check_refused("PK\x03\x04 something else altogether, long enough", "magic");
    check_refused(good.substr(0, 20), "cut short");
    check_refused(good + "x", "digest");
    std::string newer = good;
    newer[8] = 9;
    check_refused(newer, "version 9, this program reads 1");
}

TEST_CASE("a checkpoint goes into a directory under a fixed name") {
    TempDir directory(temporary_directory());
    CHECK(checkpoint_path(directory.path()) == directory.path() + "/checkpoint.slipway");
    CHECK(checkpoint_path("new/") == "new/checkpoint.slipway");
    CHECK(checkpoint_path("model.ckpt") == "model.ckpt");
    const std::string path = directory.path() + "/deep/er/model.ckpt";
    CHECK(!read_checkpoint_if_exists(path));
    write_checkpoint(path, example());
    CHECK(read_checkpoint_if_exists(path)->epoch == 3);
}
