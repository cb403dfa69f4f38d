// The environment as ch-run 0.45 makes it: the host's, unchanged but for a few variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipway::runtime {

/// One change of the user's; they apply in the order typed.
struct ChEnvChange {
    enum class Kind {
        assign,   ///< VAR=VALUE, with ch-run's quotes and expansion
        literal,  ///< VAR=VALUE, as it is
        unset     ///< a glob of names, fnmatch(3) with extended globs
    } kind = Kind::assign;
    std::string text;
    std::string origin;  ///< "--set-env, argument 1, line 3"
};

struct ChEnvRequest {
    std::vector<ChEnvChange> changes;
    bool expand = true;  ///< false: --env-no-expand
    bool adjust = true;  ///< HOME, PATH and TMPDIR; not for the host as image
    bool mark = true;    ///< set CH_RUNNING
    std::string home;    ///< HOME inside
};

/// Plan the environment; pure. `host` and the result are lists of "VAR=VALUE" in the order in which
/// a program sees them, as setenv(3) would leave them. Throws: Error(usage) with the origin.
std::vector<std::string> plan_ch_environment(std::vector<std::string> host,
                                             const ChEnvRequest& request);

/// Cut a file's text into its assignments at `separator`; empty ones do not count. Each with the
/// origin "NAME:NUMBER".
std::vector<ChEnvChange> split_ch_assignments(std::string_view text, char separator,
                                              const std::string& name);

}  // namespace slipway::runtime
