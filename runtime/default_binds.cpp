// The table of default binds.
// Must not: look at the host.
#include "default_binds.hpp"

namespace slipway::runtime {

const std::vector<DefaultBind>& default_binds() {
    using If = MountStep::IfMissing;
    static const std::vector<DefaultBind> rows = {
        {"/dev", false, If::create, "GPUs, fabrics, terminals, shared memory"},
        {"/proc", false, If::create, "the pid namespace is the host's"},
        {"/sys", false, If::create, "topology, GPUs and fabrics are found there"},
        {"/tmp", false, If::create, "sockets and files that ranks and tools of the host share"},
        {"/etc/resolv.conf", true, If::create, "names resolve as on the host"},
        {"/etc/hosts", true, If::create, "node names of the cluster"},
        {"/etc/machine-id", true, If::skip, "programs that tell nodes apart by it"},
    };
    return rows;
}

}  // namespace slipway::runtime
