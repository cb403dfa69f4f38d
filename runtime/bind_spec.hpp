// What a request mounts: binds, data packs, write mode, staging.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct BindSpec {
    std::string source;       ///< on the host, absolute
    std::string destination;  ///< inside, absolute and clean
    bool read_only = false;
    bool optional = false;  ///< no error when the source is not there
    std::string origin;
    bool create = false;  ///< make a missing source directory on the host
    bool recursive = true;
    bool no_exec = false, no_suid = false, no_devices = false;
    std::string named;  ///< of a data pack: a file, stored name or docker://REF, as typed
    /// Of a pack in the store: while it is open, nobody deletes the pack.
    std::shared_ptr<const UniqueFd> hold = {};
};

struct MountSpec {
    std::vector<BindSpec> binds;
    std::vector<BindSpec> data;  ///< squashfs files, served and mounted read-only
    bool write = false;
    std::optional<std::string> overlay_directory;  ///< absolute
    std::optional<std::string> overlay_tmpfs;  ///< size as mount(8) takes it, "" for the default
    bool private_tmp = false;
    bool home = false;
    std::optional<std::string> stage;  ///< "auto": choose; else absolute
};

/// Throws: Error(usage) with the origin of what cannot be understood, Error(conflict) for options
/// that exclude each other.
MountSpec make_mount_spec(const RunOptions& options);

/// Make a bind of the parts SRC, DST, OPTIONS; `typed` is for messages. Throws: Error(usage).
BindSpec make_bind(const Typed& typed, const std::vector<std::string>& parts);

}  // namespace slipway::runtime
