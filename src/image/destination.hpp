// What a user may name as the destination of a conversion. Private to the image room.
#pragma once

#include <string>

#include "slipway/image/layer.hpp"

namespace slipway::image {

enum class Target { squashfs, sif, layout, oci_archive, docker_archive, tar, directory, store };

struct Destination {
    Target kind = Target::directory;
    std::string path;
    std::string name;  ///< tag, name in an archive, or stored name
    LayerCompression compression = LayerCompression::none;  ///< of a tar
};

/// Understand FILE.sqfs | FILE.sif | FILE.tar[.gz|.zst] | oci:DIR[:TAG] | oci-archive:FILE[:TAG] |
/// docker-archive:FILE[:NAME] | tar:FILE | dir:DIR | DIR | store:NAME. Throws: Error(usage),
/// Error(unsupported) with what is possible.
Destination parse_destination(const std::string& text);

/// Throws: Error(already_exists) when something is in the way; Error(not_found) when there is no
/// directory to write into.
void check_destination(const Destination& destination);

}  // namespace slipway::image
