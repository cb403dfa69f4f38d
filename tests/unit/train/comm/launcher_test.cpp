// Launchers, told by their variables.
// Must not: start one.
#include "comm/launcher.hpp"

#include <map>

#include "catch.hpp"

using namespace slipway::train;

namespace {

LauncherFacts facts_of(std::map<std::string, std::string> variables) {
    return detect_launcher([variables](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    });
}

}  // namespace

TEST_CASE("each launcher is told by its variables") {
    struct Row {
        std::map<std::string, std::string> variables;
        std::string plugin;
        int size;
    };
    const std::vector<Row> rows = {
        {{}, "", 1},
        {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}}, "openmpi", 4},
        {{{"PMI_FD", "5"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "mpich", 2},
        {{{"PMI_PORT", "h:1"}, {"PMI_ID", "0"}}, "mpich", 0},
        {{{"PMI_FD", "5"}, {"PMI_SIZE", "8"}, {"PMI_JOBID", "1.0"}, {"SLURM_STEP_ID", "0"}},
         "mpich",
         8},
        {{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.1.0"}, {"SLURM_STEP_NUM_TASKS", "3"}},
         "openmpi",
         3},
        {{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}, "openmpi", 0},
        // mpirun that srun has started for us: the inner one counts
        {{{"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "0"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"OMPI_COMM_WORLD_SIZE", "16"}},
         "openmpi",
         16},
        {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, "", 2},
        // a batch script without srun is no launcher
        {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "64"}, {"SLURM_JOB_ID", "1"}}, "", 1},
        {{{"OMPI_COMM_WORLD_SIZE", "many"}}, "openmpi", 0},
    };
    for (const Row& row : rows) {
        const LauncherFacts facts = facts_of(row.variables);
        CHECK(facts.plugin == row.plugin);
        CHECK(facts.size == row.size);
    }
}

TEST_CASE("a launcher that no transport fits comes with a remedy") {
    const LauncherFacts facts =
        facts_of({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
    CHECK(facts.several());
    CHECK_THAT(facts.remedy, ContainsSubstring("--mpi=pmix"));
}
