// Finds the bundles that --preload adds to an image.
// Must not: know what is in a bundle.
#include "preload.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::builder {

std::string find_bundle(const std::string& name) {
    if (name.empty() || name.find('/') != std::string::npos || name[0] == '.')
        throw Error(ErrorKind::usage,
                    fmt::format("{} is no name of a bundle", slipway::quoted(name)))
            .note("requested by: --preload");
    const std::string directory = join_path(installed_prefix(), "libexec/slipway/preload/" + name);
    const auto status = sys::stat_if_exists(AT_FDCWD, directory);
    if (!status || !S_ISDIR(status->st_mode))
        throw Error(ErrorKind::not_found,
                    fmt::format("there is no bundle {}", slipway::quoted(name)))
            .note(fmt::format("requested by: --preload {}", name))
            .note(fmt::format("looked for in {}", slipway::quoted(directory)))
            .hint(
                "install Slipway with its training engine (cmake --install of a build with "
                "SLIPWAY_TRAIN=ON)");
    return directory;
}

}  // namespace slipway::builder
