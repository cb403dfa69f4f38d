// Buckets cover the arena, in order, and are not too small.
// Must not: reduce.
#include "strategy/bucket_plan.hpp"

#include "catch.hpp"
#include "random.hpp"

using namespace slipway::train;

TEST_CASE("buckets cover the arena without gaps and end where parameters end") {
    Random random(7, 7);
    for (int round = 0; round < 100; ++round) {
        std::vector<size_t> counts(1 + random.below(30)), ends;
        size_t total = 0;
        for (auto& count : counts) ends.push_back(total += count = 16 * (1 + random.below(500)));
        size_t next = 0;
        for (const Bucket& bucket : plan_buckets(counts, 8000)) {
            REQUIRE(bucket.first == next);
            REQUIRE(bucket.last > bucket.first);
            REQUIRE(std::find(ends.begin(), ends.end(), bucket.last) != ends.end());
            next = bucket.last;
        }
        REQUIRE(next == total);
    }
}

TEST_CASE("a small tail joins the bucket before it, a lone one stands") {
    CHECK(plan_buckets({100, 100, 10}, 100).size() == 2);
    CHECK(plan_buckets({100, 100, 10}, 100).back().last == 210);
    CHECK(plan_buckets({100, 100, 60}, 100).size() == 3);
    CHECK(plan_buckets({10}, 100).size() == 1);
    CHECK(plan_buckets({}, 100).empty());
}
