// What this host allows, found by trying.
#pragma once

#include <string>
#include <vector>

#include "slipway/base/json.hpp"

namespace slipway::runtime {

/// One thing that was tried or looked up.
struct Finding {
    enum class Level {
        ok,
        skipped,  ///< could not be tried, because something before it failed
        warning,  ///< images run; something slower, smaller or missing
        problem   ///< images do not run
    } level = Level::ok;
    std::string name;     ///< "user namespaces"
    std::string found;    ///< what was seen, with the kernel's own words
    std::string meaning;  ///< for the user; "" where all is well
    std::string remedy;   ///< what to type, or whom to ask for what; "" where none is known
};

struct Diagnosis {
    std::vector<Finding> findings;
    /// True when `slipway run` of a squashfs file works here: no finding is a problem.
    bool images_run() const;
};

/// Try everything that Slipway needs, each in a child of its own with a time limit; leaves nothing
/// behind. `store` is the store of --storage, "" for the configuration's.
Diagnosis examine_host(const std::string& store);

Json to_json(const Diagnosis& diagnosis);
/// "ok", "skipped", "warning", "problem".
std::string to_string(Finding::Level level);

}  // namespace slipway::runtime
