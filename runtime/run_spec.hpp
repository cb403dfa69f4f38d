// A request to run, validated: what `slipway run` was asked for, in types.
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
};

struct EnvSetting {
    std::string name;
    std::optional<std::string> value;  ///< absent: the host's value
    std::string origin;
};

struct RunSpec {
    std::vector<std::string> command;
    std::vector<BindSpec> binds;
    std::vector<EnvSetting> env;
    std::optional<std::string> directory;
    bool write = false;
    bool share_session = true;
    std::string session_name;  ///< "": from the launcher
};

/// Validate what was typed. Throws: Error(usage) with the origin of what cannot be understood.
RunSpec make_run_spec(const RunOptions& options);

}  // namespace slipway::runtime
