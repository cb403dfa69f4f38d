// The tables of the environment's policy.
// Must not: look at any variable's value.
#include "env_policy.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace slipway::runtime {

namespace {

constexpr DroppedVariable kDropped[] = {
    {"LD_*", "libraries of the host loaded into the image's programs crash them"},
    {"GCONV_PATH", "converters of the host's C library"},
    {"LOCPATH", "locales of the host's C library"},
    {"NLSPATH", "message catalogues of the host"},
    {"PYTHON*", "modules and interpreter settings of the host"},
    {"VIRTUAL_ENV", "a Python environment of the host"},
    {"CONDA_*", "a conda environment of the host"},
    {"_CE_*", "conda's own state"},
    {"PERL*", "modules and settings of the host's Perl"},
    {"RUBY*", "the host's Ruby"},
    {"GEM_*", "the host's Ruby"},
    {"R_HOME", "the host's R"},
    {"R_LIBS*", "the host's R"},
    {"JULIA_*", "the host's Julia"},
    {"NODE_PATH", "the host's Node.js"},
    {"NODE_OPTIONS", "the host's Node.js"},
    {"LUA_*", "the host's Lua"},
    {"TCLLIBPATH", "the host's Tcl"},
    {"CLASSPATH", "the host's Java"},
    {"JAVA_*", "the host's Java"},
    {"MODULE*", "environment modules: their files are not in the image"},
    {"LOADEDMODULES", "environment modules"},
    {"_LMFILES_*", "environment modules"},
    {"__MODULES*", "environment modules"},
    {"LMOD_*", "Lmod: its files are not in the image"},
    {"__LMOD*", "Lmod"},
    {"_ModuleTable*", "Lmod"},
    {"EBROOT*", "EasyBuild modules of the host"},
    {"EBDEVEL*", "EasyBuild modules of the host"},
    {"EBVERSION*", "EasyBuild modules of the host"},
    {"SPACK_*", "Spack of the host"},
    {"BASH_ENV", "a script of the host that every bash would read"},
    {"ENV", "a script of the host that every sh would read"},
    {"BASH_FUNC_*", "shell functions that call programs of the host"},
    {"PROMPT_COMMAND", "calls programs of the host"},
    {"LESSOPEN", "calls a program of the host"},
    {"LESSCLOSE", "calls a program of the host"},
    {"SHELL", "the user's shell may not be in the image"},
    {"CPATH", "headers of the host"},
    {"C_INCLUDE_PATH", "headers of the host"},
    {"CPLUS_INCLUDE_PATH", "headers of the host"},
    {"LIBRARY_PATH", "libraries of the host"},
    {"CMAKE_PREFIX_PATH", "packages of the host"},
    {"PKG_CONFIG*", "packages of the host"},
    {"ACLOCAL_PATH", "packages of the host"},
    {"MANPATH", "manuals of the host"},
    {"INFOPATH", "manuals of the host"},
    {"XDG_DATA_DIRS", "data of the host's programs"},
    {"XDG_CONFIG_DIRS", "settings of the host's programs"},
    {"CUDA_HOME", "the host's CUDA toolkit"},
    {"CUDA_PATH", "the host's CUDA toolkit"},
    {"CUDA_ROOT", "the host's CUDA toolkit"},
    {"OPAL_PREFIX", "where the host's Open MPI lies"},
    {"OPAL_LIBDIR", "where the host's Open MPI lies"},
    {"OPAL_PKGLIBDIR", "where the host's Open MPI lies"},
    {"OPAL_DATADIR", "where the host's Open MPI lies"},
    {"PMIX_INSTALL_PREFIX", "where the host's PMIx lies"},
    {"PRTE_PREFIX", "where the host's PRRTE lies"},
    {"I_MPI_ROOT", "where the host's Intel MPI lies"},
    {"FI_PROVIDER_PATH", "where the host's libfabric lies"},
    {"UCX_MODULE_DIR", "where the host's UCX lies"},
    {"HWLOC_PLUGINS_PATH", "where the host's hwloc lies"},
    {"SSL_CERT_*", "certificates under a path of the host"},
    {"CURL_CA_BUNDLE", "certificates under a path of the host"},
    {"REQUESTS_CA_BUNDLE", "certificates under a path of the host"},
    {"DBUS_SESSION_BUS_ADDRESS", "the session's bus is not reached from inside"},
    {"PWD", "the command starts elsewhere"},
    {"OLDPWD", "the command starts elsewhere"},
    {"_", "the shell's record of what it started"},
};

constexpr NeededVariable kNeeded[] = {
    {"SLURM*", "Slurm's job, step and rank", true},
    {"SRUN_*", "srun's options", true},
    {"PMI*", "the launcher's PMI or PMIx", true},  // PMI_, PMI2_, PMIX_
    {"OMPI_*", "Open MPI's launcher and settings", true},
    {"PRTE_*", "PRRTE, Open MPI's launcher", true},
    {"HYDRA_*", "MPICH's launcher", true},
    {"HYDI_*", "MPICH's launcher", true},
    {"MPI_LOCAL*", "MPICH's ranks of this node", true},
    {"MPIR_*", "MPICH's settings"},
    {"MPICH_*", "MPICH's settings"},
    {"MPI*", "settings of an MPI"},
    {"I_MPI_*", "Intel MPI's settings"},
    {"MV2_*", "MVAPICH's settings"},
    {"PALS_*", "HPE's launcher", true},
    {"ALPS_*", "Cray's launcher", true},
    {"FLUX_*", "Flux's job and rank", true},
    {"PBS_*", "PBS's job", true},
    {"LSB_*", "LSF's job", true},
    {"LS_*", "LSF's job", true},
    {"JOB_ID", "Grid Engine's job", true},
    {"RANK", "rank, for PyTorch and others", true},
    {"LOCAL_RANK", "rank on this node, for PyTorch and others", true},
    {"WORLD_SIZE", "number of ranks, for PyTorch and others", true},
    {"LOCAL_WORLD_SIZE", "number of ranks on this node", true},
    {"GROUP_RANK", "rank of the node", true},
    {"NODE_RANK", "rank of the node", true},
    {"MASTER_ADDR", "where ranks meet", true},
    {"MASTER_PORT", "where ranks meet", true},
    {"TORCHELASTIC_*", "torchrun's ranks", true},
    {"CUDA_VISIBLE_DEVICES", "the GPUs of this rank", true},
    {"NVIDIA_VISIBLE_DEVICES", "the GPUs of this job", true},
    {"ROCR_VISIBLE_DEVICES", "the GPUs of this rank", true},
    {"HIP_VISIBLE_DEVICES", "the GPUs of this rank", true},
    {"GPU_DEVICE_ORDINAL", "the GPUs of this rank", true},
    {"ZE_AFFINITY_MASK", "the GPUs of this rank", true},
    {"CUDA_*", "CUDA's settings"},
    {"NVIDIA_*", "settings of NVIDIA's driver"},
    {"ROCR_*", "ROCm's settings"},
    {"HSA_*", "ROCm's settings"},
    {"HIP_*", "HIP's settings"},
    {"NCCL_*", "NCCL's settings"},
    {"RCCL_*", "RCCL's settings"},
    {"UCX_*", "UCX's settings"},
    {"UCC_*", "UCC's settings"},
    {"FI_*", "libfabric's settings"},
    {"PSM*", "settings of Omni-Path"},
    {"HWLOC_*", "hwloc's settings"},
    {"OMP_*", "OpenMP's settings"},
    {"GOMP_*", "OpenMP's settings"},
    {"KMP_*", "OpenMP's settings"},
    {"MKL_*", "MKL's settings"},
    {"OPENBLAS_*", "OpenBLAS's settings"},
    {"SLIPWAY_*", "Slipway's settings"},
    {"TERM", "the terminal"},
    {"COLORTERM", "the terminal"},
    {"NO_COLOR", "the terminal"},
    {"COLUMNS", "the terminal"},
    {"LINES", "the terminal"},
    {"LANG", "language"},
    {"LANGUAGE", "language"},
    {"LC_*", "language"},
    {"TZ", "time zone"},
    {"USER", "who you are"},
    {"LOGNAME", "who you are"},
    {"http_proxy", "a proxy"},
    {"https_proxy", "a proxy"},
    {"ftp_proxy", "a proxy"},
    {"all_proxy", "a proxy"},
    {"no_proxy", "a proxy"},
    {"HTTP_PROXY", "a proxy"},
    {"HTTPS_PROXY", "a proxy"},
    {"FTP_PROXY", "a proxy"},
    {"ALL_PROXY", "a proxy"},
    {"NO_PROXY", "a proxy"},
};

/// Finds rows by the first letter of their patterns: hundreds of variables are looked up in each
/// start.
template <typename Row, size_t kCount>
class Index {
 public:
    constexpr explicit Index(const Row (&rows)[kCount]) : rows_(rows) {
        for (size_t number = kCount; number-- > 0;) {
            uint8_t& first = first_[letter_of(rows[number].pattern)];
            next_[number] = std::exchange(first, static_cast<uint8_t>(number + 1));
        }
    }
    /// The first row whose pattern covers `name`.
    constexpr const Row* find(std::string_view name) const {
        if (name.empty()) return nullptr;
        for (size_t number = first_[letter_of(name)]; number != 0; number = next_[number - 1]) {
            const std::string_view pattern = rows_[number - 1].pattern;
            if (pattern.back() == '*' ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                      : name == pattern)
                return &rows_[number - 1];
        }
        return nullptr;
    }

 private:
    static_assert(kCount < 255);
    static constexpr uint8_t letter_of(std::string_view text) {
        return static_cast<uint8_t>(text[0]);
    }
    const Row* rows_;
    uint8_t first_[256] = {};  ///< a row's number plus one, 0: none
    uint8_t next_[kCount] = {};
};

constexpr Index kDroppedIndex(kDropped);
constexpr Index kNeededIndex(kNeeded);

}  // namespace

std::span<const DroppedVariable> dropped_variables() { return kDropped; }

const DroppedVariable* find_dropped(std::string_view name) { return kDroppedIndex.find(name); }

const NeededVariable* find_needed(std::string_view name) { return kNeededIndex.find(name); }

bool holds_path(std::string_view name) {
    for (const std::string_view known :
         {"HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XAUTHORITY", "KRB5_CONFIG"})
        if (name == known) return true;
    return false;
}

}  // namespace slipway::runtime
