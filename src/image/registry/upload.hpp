// Blobs on their way into a registry. Private to the image room.
#pragma once

#include <string>

#include "client.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/oci.hpp"

namespace slipway::image {

/// Put a blob into the client's repository, unless it is there. `from`: another repository of the
/// registry that may have it, so that it is mounted from there, or "". Returns the bytes that were
/// sent. Throws: Error(io) with the remedy.
uint64_t upload_blob(RegistryClient& client, const BlobSource& blobs, const Digest& digest,
                     Progress& progress, const std::string& from = {});

}  // namespace slipway::image
