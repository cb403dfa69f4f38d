// Entering the container of an instance that lives.
#pragma once

#include <string>
#include <vector>

#include "instance_state.hpp"

namespace slipway::runtime {

/// Enter every namespace in which the instance's command stands and we do not.
/// Pre: single-threaded. Throws: Error(not_found) when the command has ended.
void enter_instance(const InstanceRecord& record);

/// The record of an instance that lives. Throws: Error(not_found) with what is there instead.
InstanceRecord find_instance(const InstanceDirectory& directory, const std::string& name);

}  // namespace slipway::runtime
