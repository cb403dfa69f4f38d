// Sets the variables by which relocated MPI libraries find their components.
// Must not: touch the launcher's wire-up variables.
#include "comm/bundle.hpp"

#include <fcntl.h>

#include <cstdlib>
#include <sstream>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::train {

std::string program_directory() {
    return std::string(parent_path(sys::readlinkat(AT_FDCWD, "/proc/self/exe")));
}

void prepare_for_user_namespace(const std::string& transport) {
    std::string map;
    try {
        map = read_file("/proc/self/uid_map");
    } catch (const Error&) {
        return;  // no user namespaces here
    }
    unsigned long inside = 0, outside = 0, count = 0;
    std::istringstream(map) >> inside >> outside >> count;
    if (count == 4294967295UL) return;  // the initial one
    if (transport == "openmpi") ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    // Slipway puts all ranks of a node into one user namespace (its images hold this file): there
    // UCX works as it is, and must: over sysv or tcp MPICH 4.0 was seen to hang in MPI_Finalize
    // with more ranks than processors.
    if (sys::stat_if_exists(AT_FDCWD, "/.slipway/image.json")) return;
    // UCX's posix transport opens /proc/PID/fd/N of its peers and fails outright when it may not;
    // its sysv transport is as quick.
    ::setenv("UCX_TLS", "^posix,cma", 0);
}

void prepare_bundle_environment(const std::string& transport) {
    const std::string root(parent_path(program_directory()));
    if (!sys::stat_if_exists(AT_FDCWD, join_path(root, "lib/openmpi"))) return;
    const auto set = [&](const char* name, const std::string& below) {
        ::setenv(name, join_path(root, below).c_str(), 1);
    };
    if (transport == "openmpi") {
        set("OPAL_PREFIX", "");
        set("OPAL_LIBDIR", "lib");
        set("OPAL_PKGLIBDIR", "lib/openmpi");
        set("OPAL_DATADIR", "share");
        set("OPAL_PKGDATADIR", "share/openmpi");
        set("OPAL_SYSCONFDIR", "etc");
        set("OMPI_MCA_mca_base_component_path", "lib/openmpi");
        set("PMIX_PREFIX", "");
        set("PMIX_LIBDIR", "lib");
        set("PMIX_PKGLIBDIR", "lib/pmix");
        set("PMIX_DATADIR", "share");
        set("PMIX_PKGDATADIR", "share/pmix");
        set("PMIX_SYSCONFDIR", "etc");
        set("PMIX_MCA_mca_base_component_path", "lib/pmix");
    }
    set("UCX_MODULE_DIR", "lib/ucx");
    set("HWLOC_PLUGINS_PATH", "lib/hwloc");
}

}  // namespace slipway::train
