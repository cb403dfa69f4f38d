// The directory in which a command starts, and the variable that names it.
#pragma once

#include <string>
#include <vector>

namespace slipway::runtime {

/// chdir, with the words for a failure. Throws: SysError.
void enter_directory(const std::string& directory, const std::string& origin);
/// The environment with PWD set to the directory in which we are.
std::vector<std::string> with_directory(std::vector<std::string> environment);

}  // namespace slipway::runtime
