// Turns what was typed of binds, data and write modes into types.
// Must not: look at the host, beyond the working directory for relative sources.
#include "bind_spec.hpp"

#include <fmt/core.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

Error malformed(const Typed& typed, const std::string& reason) {
    return Error(ErrorKind::usage, fmt::format("cannot understand the bind {}: {}",
                                               slipway::quoted(typed.text), reason))
        .note("requested by: " + typed.origin)
        .hint(
            "write SRC[:DST[:OPTIONS]] with absolute DST and options out of ro, rw, optional, "
            "separated by commas");
}

BindSpec parse_bind(const Typed& typed) {
    const auto parts = split(typed.text, ':');
    if (parts.size() > 3) throw malformed(typed, "it has more than three parts");
    if (parts[0].empty()) throw malformed(typed, "the source is empty");
    BindSpec bind;
    bind.origin = typed.origin;
    bind.source = absolute_path(parts[0]);
    const std::string destination = parts.size() > 1 && !parts[1].empty() ? parts[1] : bind.source;
    if (!destination.starts_with('/')) throw malformed(typed, "the destination is not absolute");
    bind.destination = lexically_normal(destination);
    if (bind.destination == "/")
        throw malformed(typed, "nothing can be mounted over the image's root directory");
    if (parts.size() < 3) return bind;
    for (const auto& option : split(parts[2], ',')) {
        if (option == "ro")
            bind.read_only = true;
        else if (option == "optional")
            bind.optional = true;
        else if (option != "rw")
            throw malformed(typed, fmt::format("there is no option {}", slipway::quoted(option)));
    }
    return bind;
}

}  // namespace

MountSpec make_mount_spec(const RunOptions& options) {
    MountSpec spec;
    for (const auto& typed : options.binds) spec.binds.push_back(parse_bind(typed));
    spec.write = options.write;
    return spec;
}

}  // namespace slipway::runtime
