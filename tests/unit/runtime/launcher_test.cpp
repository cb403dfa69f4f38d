// Ranks of one step find each other, ranks of two steps do not.
// Must not: depend on what started the test.
#include "launcher.hpp"

#include <unistd.h>

#include "catch.hpp"

using namespace slipway::runtime;

namespace {

ProcessReader processes(std::map<int, ProcessFacts> table) {
    return [table](int pid) -> std::optional<ProcessFacts> {
        const auto found = table.find(pid);
        if (found == table.end()) return std::nullopt;
        return found->second;
    };
}

const ProcessReader kShells = processes(
    {{100, {"bash", 50, "111"}}, {101, {"bash", 50, "112"}}, {50, {"hydra_pmi_proxy", 1, "99"}}});

}  // namespace

TEST_CASE("Slurm and PMIx name the step") {
    const Launcher slurm =
        find_launcher({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "2"}}, 100, kShells);
    CHECK(slurm.name == "slurm");
    CHECK(slurm.job == "7.2");
    CHECK(find_launcher({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "3"}}, 100, kShells).job !=
          slurm.job);
    CHECK(find_launcher({{"PMIX_NAMESPACE", "prte-a@1"}}, 100, kShells).job ==
          find_launcher({{"PMIX_NAMESPACE", "prte-a@1"}}, 101, kShells).job);
}

TEST_CASE("a job without a step is no step") {
    CHECK(find_launcher({{"SLURM_JOB_ID", "7"}}, 100, kShells).name == "parent");
}

TEST_CASE("ranks below wrapper scripts meet at the launching process") {
    const Launcher first = find_launcher({{"PMI_RANK", "0"}}, 100, kShells);
    const Launcher second = find_launcher({{"PMI_RANK", "1"}}, 101, kShells);
    CHECK(first.name == "hydra_pmi_proxy");
    CHECK(first.job == second.job);
}

TEST_CASE("without a launcher the parent and its start time count") {
    const Launcher first = find_launcher({}, 100, kShells);
    CHECK(first.name == "parent");
    CHECK(first.job == "100@111");
    CHECK(find_launcher({}, 101, kShells).job != first.job);
    CHECK(find_launcher({{"PMI_RANK", "0"}}, 7, kShells).job == "7");
}

TEST_CASE("a process of our own is read from /proc") {
    const auto self = read_process(::getpid());
    REQUIRE(self.has_value());
    CHECK(self->parent == ::getppid());
    CHECK(self->start_time.find_first_not_of("0123456789") == std::string::npos);
    CHECK_FALSE(self->start_time.empty());
    CHECK_FALSE(read_process(0x7fffffff).has_value());
}
