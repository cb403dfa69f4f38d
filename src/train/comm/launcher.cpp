// Recognises launchers by the variables they set for each rank.
// Must not: load or initialise a transport.
#include "comm/launcher.hpp"

#include <charconv>
#include <cstdlib>

namespace slipway::train {

namespace {

// A launcher's variables: `proof` and all of `also` must be there.
struct Row {
    const char* name;
    const char* proof;
    std::vector<const char*> also;
    std::vector<const char*> size;  // the first that is there
    const char* plugin;
    const char* remedy;
};

const std::vector<Row>& rows() {
    static const std::vector<Row> table = {
        {"mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", {}, {"OMPI_COMM_WORLD_SIZE"}, "openmpi", ""},
        {"srun --mpi=pmi2",
         "PMI_FD",
         {"PMI_SIZE", "SLURM_STEP_ID", "PMI_JOBID"},
         {"PMI_SIZE"},
         "mpich",
         ""},
        {"mpiexec of MPICH (Hydra)", "PMI_FD", {"PMI_SIZE"}, {"PMI_SIZE"}, "mpich", ""},
        {"mpiexec of MPICH (Hydra)", "PMI_PORT", {}, {"PMI_SIZE"}, "mpich", ""},
        {"PALS", "PMI_CONTROL_PORT", {"PMI_SIZE"}, {"PMI_SIZE"}, "mpich", ""},
        {"srun --mpi=pmix",
         "PMIX_RANK",
         {"SLURM_STEP_NUM_TASKS"},
         {"SLURM_STEP_NUM_TASKS"},
         "openmpi",
         ""},
        {"a PMIx launcher", "PMIX_RANK", {"PMIX_NAMESPACE"}, {}, "openmpi", ""},
        {"srun without MPI support",
         "SLURM_STEP_NUM_TASKS",
         {"SLURM_PROCID", "SLURM_STEP_ID"},
         {"SLURM_STEP_NUM_TASKS"},
         "",
         "run srun --mpi=pmix or srun --mpi=pmi2 (srun --mpi=list tells what there is)"},
    };
    return table;
}

int number(const std::string& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value > 0 ? value : 0;
}

bool fits(const Row& row, const Environment& environment) {
    if (!environment(row.proof)) return false;
    for (const char* name : row.also)
        if (!environment(name)) return false;
    return true;
}

}  // namespace

Environment process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        if (value == nullptr) return std::nullopt;
        return value;
    };
}

LauncherFacts detect_launcher(const Environment& environment) {
    for (const Row& row : rows()) {
        if (!fits(row, environment)) continue;
        LauncherFacts facts{row.name, row.proof, 0, row.plugin, row.remedy};
        for (const char* name : row.size)
            if (auto text = environment(name)) facts.size = number(*text);
        return facts;
    }
    return {};
}

}  // namespace slipway::train
