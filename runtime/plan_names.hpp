// The words for the enumerations of a plan, in JSON, in identities and in messages.
#pragma once

#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

const char* name_of(MountStep::IfMissing policy);

}  // namespace slipway::runtime
