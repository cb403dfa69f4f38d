// Squashfs files made of images of layers, with a seal, so that each block is checked when it is
// read. Private to the image room.
#pragma once

#include <string>
#include <vector>

#include "slipway/base/digest.hpp"
#include "slipway/image/oci.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Make the file squashfs/KEY-SEAL.sqfs of a store, of layers that are checked against their
/// digests; it is named by its seal, on which there is no signature. Whoever verified the image's
/// manifest has verified this file, as far as the store's owner is trusted. The caller holds the
/// key's lock. Returns what the squashfs cannot hold.
std::vector<std::string> make_sealed_squashfs(const OciImage& image, const std::string& key,
                                              const Store& store);
/// The one that is there; "" if none is.
std::string find_sealed_squashfs(const std::string& key, const Store& store);
/// The seal that such a file must have.
Digest seal_in_name(const std::string& path);

}  // namespace slipway::image
