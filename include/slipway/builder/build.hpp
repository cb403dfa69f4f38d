// Building images: Dockerfile -> plan -> steps -> layers -> image; and base images from a
// distribution's mirror.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/image/store.hpp"

namespace slipway::builder {

/// `slipway build`, as typed.
struct BuildOptions {
    std::string context;                  ///< directory
    std::string dockerfile;               ///< -f; "": CONTEXT/Dockerfile; "-": standard input
    std::string tag;                      ///< -t; "": none
    std::string output;                   ///< -o FILE.sqfs; "": none
    std::vector<std::string> build_args;  ///< "K=V" or "K" (the value of our environment)
    std::vector<std::string> preload;     ///< "train"
    std::string target;                   ///< --target stage
    bool no_cache = false;
    bool no_network = false;  ///< --network=none
    bool sbom = false;        ///< --sbom: the output holds a list of its software
    std::string store;
};

struct BuildReport {
    image::OciImage image;
    std::string name;  ///< as stored, or "" if untagged
    size_t steps = 0;
    size_t cached_steps = 0;
    uint64_t squashfs_bytes = 0;  ///< of the output file, 0 if none
};
BuildReport build(const BuildOptions& options);
/// The plan of a build as JSON, nothing done.
Json plan_build(const BuildOptions& options);

struct BootstrapOptions {
    std::string suite;  ///< "bookworm", "trixie", "noble", ...
    std::string tag;
    std::string mirror;  ///< "": what the machine's own apt uses for this distribution
    std::vector<std::string> include;  ///< more packages
    std::string variant = "minbase";
    std::string store;
};
/// Make a base image with mmdebstrap inside our own namespace. Throws: Error(not_found) when
/// mmdebstrap is missing.
image::OciImage bootstrap(const BootstrapOptions& options);

}  // namespace slipway::builder
