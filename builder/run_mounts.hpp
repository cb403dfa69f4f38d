// The mounts of one RUN: caches, scratch space, files of the context or of another stage, scripts.
#pragma once

#include <string>
#include <vector>

#include "run_layer.hpp"
#include "slipway/base/file.hpp"

namespace slipway::builder {

/// Prepares what is bound and holds the locks of exclusive caches while it lives.
class RunMounts {
 public:
    struct Bind {
        std::string source;  ///< on the host
        std::string target;
        bool read_only = true;
    };
    /// `scratch` is a directory that outlives this object and is removed afterwards.
    RunMounts(const image::Store& store, const std::string& scratch, const RunAction& action,
              const MountSources& sources);
    const std::vector<Bind>& binds() const { return binds_; }

 private:
    void add_cache(const MountAction& mount);
    void add_scratch(const MountAction& mount);
    void add_bind(const MountAction& mount, const MountSources& sources);
    void add_script(const InlineFile& script);
    std::string new_place();

    const image::Store& store_;
    std::string scratch_;
    size_t places_ = 0;
    std::vector<Bind> binds_;
    std::vector<FileLock> locks_;
};

}  // namespace slipway::builder
