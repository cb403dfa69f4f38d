// Which launcher started us: the ranks of one job step on one node share a session.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "host_facts.hpp"
#include "slipway/base/process_facts.hpp"

namespace slipway::runtime {

/// std::nullopt when there is no such process, or it is hidden from us.
using ProcessReader = std::function<std::optional<ProcessFacts>(int pid)>;

/// Tell the job step from the launcher's variables, else from the launching process among our
/// ancestors, else from our parent. `parent` is our parent's pid.
Launcher find_launcher(const std::map<std::string, std::string>& environment, int parent,
                       const ProcessReader& read_process);

}  // namespace slipway::runtime
