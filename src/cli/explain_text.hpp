// A plan in words for people.
#pragma once

#include <string>

#include "slipway/runtime/run.hpp"

namespace slipway::cli {

/// Every variable, dropped ones included: name, value, what decided.
std::string environment_table(const runtime::RunPlan& plan);
/// The whole plan: who, where, what is mounted, set and run, and where each part comes from.
std::string plan_text(const runtime::RunPlan& plan);

}  // namespace slipway::cli
