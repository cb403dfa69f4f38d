// The configuration of a user on a site's machine: built in < site's file < user's file < SLIPWAY_*
// variables; the command line's options win over all of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// A value, and who gave it: "built in", "\"store\" in /etc/slipway/config.json", "SLIPWAY_STORE".
struct Setting {
    std::string value;  ///< "": the built-in behaviour
    std::string origin;
};

struct Configuration {
    /// Every setting by name, with all that was given for it, the weakest first: the last one
    /// counts.
    std::map<std::string, std::vector<Setting>> settings;
    std::vector<EnvChange> environment;  ///< of "env" and "unset_env", in the order they apply
    std::vector<std::string> files;      ///< that were read

    const std::string& value(const std::string& name) const;
};

/// What is known of a setting without looking at any file.
struct SettingRow {
    const char* name;
    const char* variable;
    const char* built_in;  ///< the behaviour when nobody sets it, in words
};
const std::vector<SettingRow>& setting_rows();

/// Read the site's and the user's file, if they are there, and the environment.
/// Throws: Error(usage) naming file and key for what cannot be understood.
Configuration load_configuration();

/// Fill in what the command line left open; changes of the environment come before its own.
void apply_configuration(const Configuration& configuration, RunOptions& options);

}  // namespace slipway::runtime
