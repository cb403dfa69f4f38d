// Buckets are reduced once each, in order, as soon as they are full, in every mode.
// Must not: need more than one process; the communicator here records the calls it gets.
#include "strategy/gradient_reducer.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::train;

namespace {

class Recorder final : public Communicator {
 public:
    std::vector<std::pair<size_t, size_t>> calls;
    size_t fail_at = 1000;
    ReduceBuffer reduce_buffer(size_t) override { return {}; }
    void all_reduce(size_t offset, size_t count) override {
        if (calls.size() == fail_at) throw Error(ErrorKind::launcher, "rank 1 has died");
        calls.emplace_back(offset, count);
    }
    void sum(std::span<double>) override {}
    void broadcast(void*, size_t, int) override {}
    void all_gather(const void*, size_t, void*) override {}
    void barrier() override {}
    void abort(int) override {}
    void finish() override {}
};

const std::vector<Bucket> kBuckets = {{0, 32}, {32, 64}, {64, 96}};

}  // namespace

TEST_CASE("every mode reduces the whole arena once a step") {
    for (Overlap overlap : {Overlap::thread, Overlap::inlined, Overlap::end}) {
        Recorder recorder;
        GradientReducer reducer(recorder, kBuckets, overlap);
        for (int step = 0; step < 3; ++step) {
            recorder.calls.clear();
            reducer.start();
            for (size_t end : {16u, 32u, 48u, 96u}) reducer.ready(end);
            reducer.finish();
            size_t next = 0;
            for (auto [offset, count] : recorder.calls) {
                CHECK(offset == next);
                next = offset + count;
            }
            CHECK(next == 96);
            CHECK(recorder.calls.size() == (overlap == Overlap::end ? 1 : 3));
        }
    }
}

TEST_CASE("inline reduction starts before the backward pass is over") {
    Recorder recorder;
    GradientReducer reducer(recorder, kBuckets, Overlap::inlined);
    reducer.start();
    reducer.ready(31);
    CHECK(recorder.calls.empty());
    reducer.ready(40);
    CHECK(recorder.calls.size() == 1);
}

TEST_CASE("a failure on the reducing thread reaches the step") {
    Recorder recorder;
    recorder.fail_at = 1;
    GradientReducer reducer(recorder, kBuckets, Overlap::thread);
    reducer.start();
    reducer.ready(96);
    CHECK_THROWS_AS(reducer.finish(), Error);
}
