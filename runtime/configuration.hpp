// How layers of configuration become one; pure, for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "slipway/base/json.hpp"
#include "slipway/runtime/configuration.hpp"

namespace slipway::runtime {

struct ConfigurationFile {
    std::string path;
    Json object;
};

/// Keys that a configuration file may have.
std::vector<std::string> configuration_keys();

/// Put the layers together, the weakest file first; `environment` is the caller's.
/// Throws: Error(usage) naming the layer and the key.
Configuration merge_configuration(const std::vector<ConfigurationFile>& files,
                                  const std::map<std::string, std::string>& environment);

}  // namespace slipway::runtime
