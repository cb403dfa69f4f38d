// Recognises launchers by their variables and processes.
// Must not: trust a name alone to be unique: a process counts with its start time.
#include "launcher.hpp"

#include <fmt/core.h>

#include <array>
#include <sstream>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

namespace slipway::runtime {

namespace {

/// Launchers that name the step in the environment of every rank.
struct StepVariables {
    const char* launcher;
    const char* job;
    const char* step;
};
constexpr StepVariables kSteps[] = {
    {"slurm", "SLURM_JOB_ID", "SLURM_STEP_ID"},   {"slurm", "SLURM_JOBID", "SLURM_STEPID"},
    {"flux", "FLUX_JOB_ID", "FLUX_URI"},          {"palsd", "PALS_APID", "PALS_APID"},
    {"pmix", "PMIX_NAMESPACE", "PMIX_NAMESPACE"},
};

/// Variables that say "a launcher started me" without saying which step it is.
constexpr const char* kRankVariables[] = {
    "PMI_RANK",        "PMI_FD",      "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
    "MPI_LOCALRANKID", "PBS_TASKNUM", "LS_JOBPID"};

/// The launching processes of one node, parents of all its ranks; comm is cut at 15 characters.
constexpr const char* kLaunchers[] = {"hydra_pmi_proxy", "hydra_bstrap_pr",
                                      "orted",           "prted",
                                      "slurmstepd",      "pbs_mom",
                                      "pbs_demux",       "mpirun",
                                      "mpiexec",         "mpiexec.hydra",
                                      "mpiexec.mpich",   "mpiexec.openmpi",
                                      "mpirun.openmpi",  "orterun",
                                      "prterun",         "prte",
                                      "pmi_proxy",       "palsd"};
constexpr int kMaxAncestors = 8;

std::string process_key(int pid, const ProcessFacts& process) {
    return fmt::format("{}@{}", pid, process.start_time);
}

std::optional<Launcher> find_ancestor(int pid, const ProcessReader& reader) {
    for (int depth = 0; depth < kMaxAncestors && pid > 1; ++depth) {
        const auto process = reader(pid);
        if (!process) return std::nullopt;
        for (const char* name : kLaunchers)
            if (process->name == name) return Launcher{name, process_key(pid, *process)};
        pid = process->parent;
    }
    return std::nullopt;
}

}  // namespace

Launcher find_launcher(const std::map<std::string, std::string>& environment, int parent,
                       const ProcessReader& reader) {
    for (const auto& row : kSteps) {
        const auto job = environment.find(row.job);
        const auto step = environment.find(row.step);
        if (job != environment.end() && step != environment.end())
            return {row.launcher, job->second + "." + step->second};
    }
    for (const char* name : kRankVariables)
        if (environment.count(name) != 0)
            if (auto launcher = find_ancestor(parent, reader)) return *launcher;
    const auto process = reader(parent);
    return {"parent", process ? process_key(parent, *process) : std::to_string(parent)};
}

}  // namespace slipway::runtime
