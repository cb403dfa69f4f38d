// The names by which a layer says that something of the layers below is gone.
// Must not: touch the file system.
#include <fmt/core.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::image {

// Source: opencontainers/image-spec layer.md, "Whiteouts".
Whiteout classify_whiteout(const std::string& path) {
    constexpr std::string_view kPrefix = ".wh.";
    constexpr std::string_view kOpaque = ".wh..wh..opq";
    size_t slash = path.rfind('/');
    std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
    std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (!name.starts_with(kPrefix)) return {};
    if (name == kOpaque) return {Whiteout::Kind::opaque, parent};
    std::string victim = name.substr(kPrefix.size());
    if (victim.empty() || victim == "." || victim == "..") {
        throw Error(
            ErrorKind::invalid_archive,
            fmt::format("the whiteout {} names nothing that could be removed", quoted(path)));
    }
    return {Whiteout::Kind::remove, parent.empty() ? victim : parent + "/" + victim};
}

}  // namespace slipway::image
