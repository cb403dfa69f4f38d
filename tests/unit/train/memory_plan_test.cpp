// The memory planner: no two tensors that live together overlap, and memory is shared.
// Must not: use oneDNN.
#include "memory_plan.hpp"

#include "catch.hpp"
#include "random.hpp"

using namespace slipway::train;

namespace {

bool lives_with(const BufferRequest& a, const BufferRequest& b) {
    return a.first <= b.last && b.first <= a.last;
}

void check_no_overlap(const std::vector<BufferRequest>& requests, const MemoryPlan& plan) {
    for (size_t a = 0; a < requests.size(); ++a) {
        REQUIRE(plan.offsets[a] % kPlanAlignment == 0);
        REQUIRE(plan.offsets[a] + requests[a].size_bytes <= plan.total_bytes);
        for (size_t b = 0; b < a; ++b) {
            if (!lives_with(requests[a], requests[b])) continue;
            const bool apart = plan.offsets[a] + requests[a].size_bytes <= plan.offsets[b] ||
                               plan.offsets[b] + requests[b].size_bytes <= plan.offsets[a];
            REQUIRE(apart);
        }
    }
}

}  // namespace

TEST_CASE("tensors that live together never overlap") {
    Random random(42, 0);
    for (int round = 0; round < 200; ++round) {
        std::vector<BufferRequest> requests(1 + random.below(60));
        for (auto& request : requests) {
            request.size_bytes = random.below(5000);
            request.first = static_cast<int>(random.below(40));
            request.last = request.first + static_cast<int>(random.below(10));
        }
        check_no_overlap(requests, plan_memory(requests));
    }
}

TEST_CASE("a chain of activations takes two buffers' memory, not the sum") {
    std::vector<BufferRequest> chain;
    for (int step = 0; step < 50; ++step) chain.push_back({4096, step, step + 1});
    const MemoryPlan plan = plan_memory(chain);
    check_no_overlap(chain, plan);
    CHECK(plan.total_bytes == 2 * 4096);
}

TEST_CASE("tensors that all live to the end are all apart") {
    const std::vector<BufferRequest> requests = {{100, 0, 9}, {64, 1, 9}, {1, 2, 9}};
    const MemoryPlan plan = plan_memory(requests);
    check_no_overlap(requests, plan);
    CHECK(plan.total_bytes == 128 + 64 + 64);
}
