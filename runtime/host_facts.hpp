// What a plan needs to know of the host, probed once; made up in tests.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "run_spec.hpp"
#include "stage_place.hpp"

namespace slipway::runtime {

/// The program that started the ranks of this job step on this node.
struct Launcher {
    std::string name;       ///< "slurm", "pmix", "hydra_pmi_proxy", "parent", ...
    std::string job;        ///< what tells this step from all others of this user on this node
    std::string sign = {};  ///< by what it was recognised: "SLURM_JOB_ID", "PMI_RANK"; "": nothing
};

struct HostFacts {
    uint32_t uid = 0, gid = 0;
    std::string user_name;  ///< "" when the host does not know the user
    std::string group_name;
    std::string shell;  ///< the user's, absolute; "" when unknown
    std::string home;   ///< absolute
    std::map<std::string, std::string> environment;
    std::string working_directory;
    std::string time_zone;          ///< "Europe/Berlin", of /etc/localtime; "": unknown or UTC
    std::string hosts_file;         ///< /etc/hosts, where a host name is to be added to it
    std::set<std::string> present;  ///< sources of default and requested binds that are there
    std::map<std::string, FileFacts> files;  ///< data packs that are there; to stage: the image
    std::vector<StagePlace> stage_places;    ///< in order of preference
    std::string namespaces;  ///< what tells the caller's mount namespace from others
    Launcher launcher;
};

/// Our own environment.
std::map<std::string, std::string> read_environment();
/// Look at the host, for this request. Reads no file of a user's and starts nothing.
HostFacts probe_host(const RunSpec& spec);

}  // namespace slipway::runtime
