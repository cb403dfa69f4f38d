// Layers on their way from a registry into the store. Private to the image room.
#pragma once

#include <vector>

#include "../oci/model.hpp"
#include "client.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Fetch the layers that the store lacks, several at once, continuing what an earlier attempt left;
/// each becomes a blob when its digest is right. Returns the bytes that were fetched.
uint64_t fetch_layers(RegistryClient& client, const std::vector<Layer>& layers, Store& store);

}  // namespace slipway::image
