// A directory of four files becomes a data set or a precise error; images are dealt to ranks.
// Must not: train.
#include "data/dataset.hpp"

#include <algorithm>
#include <numeric>

#include "catch.hpp"
#include "digits.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::train;

namespace {

ErrorKind kind_of_failure(const std::string& directory, std::string* text = nullptr) {
    try {
        read_dataset(directory);
    } catch (const Error& error) {
        if (text) *text = error.render();
        return error.kind();
    }
    FAIL("accepted");
    return ErrorKind::internal;
}

}  // namespace

TEST_CASE("a data set is read, its classes counted, its pixels scaled") {
    DigitFiles files(40, 20, 8);
    const Dataset dataset = read_dataset(files.path());
    CHECK(dataset.train.count == 40);
    CHECK(dataset.test.count == 20);
    CHECK(dataset.train.shape == Shape{1, 8, 8});
    CHECK(dataset.classes == 4);
    double sum = 0, squares = 0;
    for (uint8_t pixel : dataset.train.pixels) {
        sum += dataset.scaled[pixel];
        squares += dataset.scaled[pixel] * dataset.scaled[pixel];
    }
    const auto n = static_cast<double>(dataset.train.pixels.size());
    CHECK(sum / n == Approx(0).margin(1e-5));
    CHECK(squares / n == Approx(1).margin(1e-4));
}

TEST_CASE("files that are missing or do not agree are named") {
    std::string text;
    CHECK(kind_of_failure("/nonexistent", &text) == ErrorKind::not_found);
    CHECK_THAT(text, ContainsSubstring("train-images-idx3-ubyte"));
    DigitFiles files(40, 20, 8);
    files.write_labels("train-labels-idx1-ubyte", 39);
    CHECK(kind_of_failure(files.path(), &text) == ErrorKind::invalid_data);
    CHECK_THAT(text, ContainsSubstring("40 images but 39 labels"));
    DigitFiles sizes(40, 20, 8);
    sizes.write_images("t10k-images-idx3-ubyte", 20, 9);
    CHECK(kind_of_failure(sizes.path(), &text) == ErrorKind::invalid_data);
    CHECK_THAT(text, ContainsSubstring("1×8×8"));
}

TEST_CASE("each epoch visits every image once, in an order of its own") {
    const auto first = epoch_order(1, 0, 1000);
    auto sorted = first;
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint32_t> all(1000);
    std::iota(all.begin(), all.end(), 0u);
    CHECK(sorted == all);
    CHECK(first != all);
    CHECK(first == epoch_order(1, 0, 1000));
    CHECK(first != epoch_order(1, 1, 1000));
    CHECK(first != epoch_order(2, 0, 1000));
}

TEST_CASE("parts cover everything once and differ by one at most") {
    for (int64_t count : {0, 1, 5, 29, 64, 360})
        for (int size : {1, 2, 3, 4, 7}) {
            int64_t next = 0;
            for (int rank = 0; rank < size; ++rank) {
                const Part part = part_of(count, rank, size);
                CHECK(part.first == next);
                CHECK(part.size() >= count / size);
                CHECK(part.size() <= (count + size - 1) / size);
                next = part.last;
            }
            CHECK(next == count);
        }
}
