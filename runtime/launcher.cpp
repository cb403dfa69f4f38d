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
    {"slurm", "SLURM_JOB_ID", "SLURM_STEP_ID"},
    {"slurm", "SLURM_JOBID", "SLURM_STEPID"},
    {"flux", "FLUX_JOB_ID", "FLUX_URI"},
    {"palsd", "PALS_APID", "PALS_APID"},
    {"pmix", "PMIX_NAMESPACE", "PMIX_NAMESPACE"},
    {"torchrun", "TORCHELASTIC_RUN_ID", "MASTER_PORT"},
};

/// Batch systems whose node daemon starts every task of every job: the job counts, where a task's
/// variable says that it was started so. Ranks of two steps of one job may share.
struct JobVariables {
    const char* launcher;
    const char* job;
    const char* index;  ///< of an array job
    const char* task;
};
constexpr JobVariables kJobs[] = {
    {"pbs", "PBS_JOBID", "PBS_ARRAY_INDEX", "PBS_TASKNUM"},
    {"lsf", "LSB_JOBID", "LSB_JOBINDEX", "LSF_PM_TASKID"},
    {"lsf", "LSB_JOBID", "LSB_JOBINDEX", "LS_JOBPID"},
};

/// Variables that say "a launcher started me" without saying which step it is.
constexpr const char* kRankVariables[] = {"PMI_RANK",        "PMI_FD",      "PMI_ID",
                                          "PMIX_RANK",       "MPIRUN_RANK", "OMPI_COMM_WORLD_RANK",
                                          "MPI_LOCALRANKID", "PBS_TASKNUM", "LSF_PM_TASKID",
                                          "LS_JOBPID"};

/// The launching processes of one step on one node, ancestors of all its ranks; comm is cut at 15
/// characters. Daemons that serve several jobs (pbs_mom, res) are not among them.
constexpr const char* kLaunchers[] = {
    "hydra_pmi_proxy", "hydra_bstrap_pr", "orted",         "prted",    "slurmstepd",
    "mpirun",          "mpiexec",         "mpiexec.hydra", "mpispawn", "mpiexec.mpich",
    "mpiexec.openmpi", "mpirun.openmpi",  "orterun",       "prterun",  "prte",
    "pmi_proxy",       "palsd",           "mpirun_rsh"};
constexpr int kMaxAncestors = 8;

std::string process_key(int pid, const ProcessFacts& process) {
    return fmt::format("{}@{}", pid, process.start_time);
}

std::optional<Launcher> find_ancestor(int pid, const ProcessReader& reader) {
    for (int depth = 0; depth < kMaxAncestors && pid > 1; ++depth) {
        const auto process = reader(pid);
        if (!process) return std::nullopt;
        for (const char* name : kLaunchers)
            if (process->name == name) return Launcher{name, process_key(pid, *process), {}};
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
            return {row.launcher, job->second + "." + step->second, row.step};
    }
    std::string sign;
    for (const char* name : kRankVariables) {
        if (environment.count(name) == 0) continue;
        sign = name;
        if (auto launcher = find_ancestor(parent, reader)) {
            launcher->sign = name;
            return *launcher;
        }
    }
    for (const auto& row : kJobs) {
        const auto job = environment.find(row.job);
        if (job == environment.end() || environment.count(row.task) == 0) continue;
        const auto index = environment.find(row.index);
        return {row.launcher, job->second + (index == environment.end() ? "" : "." + index->second),
                row.task};
    }
    const auto process = reader(parent);
    return {"parent", process ? process_key(parent, *process) : std::to_string(parent), sign};
}

}  // namespace slipway::runtime
