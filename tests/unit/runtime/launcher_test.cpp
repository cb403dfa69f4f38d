// Ranks of one step find each other, ranks of two steps do not.
// Must not: depend on what started the test.
#include "launcher.hpp"

#include <unistd.h>

#include "catch.hpp"

using namespace slipway::runtime;
using slipway::ProcessFacts;
using slipway::read_process;

namespace {

ProcessReader processes(std::map<int, ProcessFacts> table) {
    return [table](int pid) -> std::optional<ProcessFacts> {
        const auto found = table.find(pid);
        if (found == table.end()) return std::nullopt;
        return found->second;
    };
}

const ProcessReader kShells = processes({{100, {"bash", 'S', 50, "111"}},
                                         {101, {"bash", 'S', 50, "112"}},
                                         {50, {"hydra_pmi_proxy", 'S', 1, "99"}}});

const ProcessReader kDaemons =
    processes({{101, {"pbs_mom", 'S', 1, "5"}}, {1, {"init", 'S', 0, "1"}}});

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

TEST_CASE("tasks that a batch system's daemon starts share their job's session") {
    const Launcher pbs =
        find_launcher({{"PBS_JOBID", "12.head"}, {"PBS_TASKNUM", "1"}}, 101, kDaemons);
    CHECK(pbs.name == "pbs");
    CHECK(pbs.job == "12.head");
    CHECK(find_launcher({{"PBS_JOBID", "13.head"}, {"PBS_TASKNUM", "1"}}, 101, kDaemons).job !=
          pbs.job);
    const Launcher lsf = find_launcher(
        {{"LSB_JOBID", "9"}, {"LSB_JOBINDEX", "2"}, {"LSF_PM_TASKID", "4"}}, 101, kDaemons);
    CHECK(lsf.name == "lsf");
    CHECK(lsf.job == "9.2");
    CHECK(find_launcher({{"PBS_JOBID", "12.head"}}, 101, kDaemons).name == "parent");
    CHECK(find_launcher({{"PBS_JOBID", "12.head"}, {"PBS_TASKNUM", "1"}, {"PMI_RANK", "0"}}, 100,
                        kShells)
              .name == "hydra_pmi_proxy");
}

TEST_CASE("torchrun names its run and port") {
    const Launcher first =
        find_launcher({{"TORCHELASTIC_RUN_ID", "none"}, {"MASTER_PORT", "29500"}}, 100, kShells);
    CHECK(first.name == "torchrun");
    CHECK(find_launcher({{"TORCHELASTIC_RUN_ID", "none"}, {"MASTER_PORT", "29501"}}, 100, kShells)
              .job != first.job);
}

TEST_CASE("a process's name may hold anything") {
    const auto facts = slipway::parse_process_stat(
        "7 (a) b (c) S 3 7 7 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 4242 100 5 1\n");
    REQUIRE(facts.has_value());
    CHECK(facts->name == "a) b (c");
    CHECK(facts->state == 'S');
    CHECK(facts->parent == 3);
    CHECK(facts->start_time == "4242");
    CHECK(facts->processor == -1);
    const auto whole = slipway::parse_process_stat(
        "7 (a) S 1 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 999 23 24 25 26 27 28 29 30 31 32 33 34 35 "
        "36 37 17 11 0 0");
    CHECK(whole->processor == 11);
    CHECK_FALSE(slipway::parse_process_stat("7 (cut) S 3").has_value());
    CHECK_FALSE(slipway::parse_process_stat("").has_value());
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
