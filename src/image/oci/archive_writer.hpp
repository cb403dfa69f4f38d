// Images written as one tar file. Private to the image room.
#pragma once

#include <string>
#include <vector>

#include "slipway/image/oci.hpp"

namespace slipway::image {

struct Attached;

/// Write an image as "docker save" does: layers uncompressed, each under its diff id, the
/// configuration byte for byte, so that image id and diff ids stay. `name`: "digits:latest", or ""
/// for none. Returns the file's size. Throws: Error(invalid_image) for a layer that has not its
/// digests.
uint64_t write_docker_archive(const OciImage& image, const std::string& path,
                              const std::string& name);

/// Write an image as an OCI layout in a tar file; an image that has a manifest keeps it, digest
/// included, and what is attached to it. Returns the file's size.
uint64_t write_oci_archive(const OciImage& image, const std::string& path, const std::string& tag,
                           const std::vector<Attached>& attached);

}  // namespace slipway::image
