// Waiting until an instance is ready, as its starter was told to find out.
#pragma once

#include <chrono>

#include "instance_state.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/runtime/instance.hpp"

namespace slipway::runtime {

/// True when the request says how readiness is found out.
bool awaits_ready(const InstanceStart& start);
/// Refuse what would be taken for readiness before anything runs. Throws: Error(conflict) when the
/// port is in use already.
void check_ready_request(const InstanceStart& start);

/// Wait until it is ready, something comes over `channel`, or the time is up.
enum class ReadyOutcome { ready, news, timed_out };
ReadyOutcome wait_until_ready(const InstanceStart& start, const InstanceRecord& record,
                              const std::string& log_path, int channel,
                              std::chrono::steady_clock::time_point deadline);

}  // namespace slipway::runtime
