// What a request changes in the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

struct EnvSetting {
    enum class Kind {
        set,     ///< `name` gets `value`
        prefix,  ///< all of the host's variables that begin with `name`
        unset    ///< all variables that match the glob `name`
    };
    std::string name;
    std::optional<std::string> value;  ///< absent: the host's value
    std::string origin;
    Kind kind = Kind::set;
};

struct EnvSpec {
    std::vector<EnvSetting> settings;  ///< in the order typed
    bool clean = false;
    bool keep = false;
    std::string
        prompt;  ///< what an interactive shell's prompt tells of the image; "": no prompt set
    std::optional<std::vector<std::string>> exact;  ///< "K=V": all of it, taken as it is
};

/// Reads the files of --env-file. Throws: Error(usage) with the origin of what cannot be
/// understood, Error(conflict) for options that exclude each other.
EnvSpec make_env_spec(const RunOptions& options);

/// The lines of an --env-file, as podman takes them: "#" begins a comment line, blank lines count
/// nothing, "KEY=VALUE" is taken verbatim, "KEY" is the host's value, "KEY*" those of the host that
/// begin so. Pure. Throws: Error(usage) naming `origin`, the file and the line.
std::vector<EnvSetting> parse_env_file(std::string_view text, const std::string& file,
                                       const std::string& origin);

}  // namespace slipway::runtime
