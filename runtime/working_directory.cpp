// Enters the directory in which a command starts.
// Must not: choose it.
#include "working_directory.hpp"

#include <cerrno>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

void enter_directory(const std::string& directory, const std::string& origin) {
    try {
        sys::chdir(directory);
    } catch (SysError& error) {
        if (error.errno_value() == ENOTCONN) throw error.note("the image's server has ended");
        throw error.note("requested by: " + origin)
            .hint("choose a directory of the image with --cd");
    }
}

std::vector<std::string> with_directory(std::vector<std::string> environment) {
    const std::string here = "PWD=" + absolute_path(".");
    for (auto& entry : environment) {
        if (!entry.starts_with("PWD=")) continue;
        entry = here;
        return environment;
    }
    environment.push_back(here);
    return environment;
}

}  // namespace slipway::runtime
