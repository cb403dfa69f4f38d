// What a request changes in the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct EnvSetting {
    std::string name;
    std::optional<std::string> value;  ///< absent: the host's value
    std::string origin;
};

struct EnvSpec {
    std::vector<EnvSetting> settings;
    bool clean = false;
    bool keep = false;
    std::optional<std::vector<std::string>> exact;  ///< "K=V": all of it, taken as it is
};

/// Throws: Error(usage) with the origin of what cannot be understood.
EnvSpec make_env_spec(const RunOptions& options);

}  // namespace slipway::runtime
