// Signatures of images on their way from and to a registry. Private to the image room.
#pragma once

#include "../trust/attached.hpp"
#include "client.hpp"
#include "documents.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Fetch what is attached to a manifest or index. Throws: Error(io) with the registry's answer.
Attached fetch_attached(RegistryClient& client, const Descriptor& subject,
                        const std::string& subject_text, bool with_bundles);
/// Send it, beside what is there.
void send_attached(RegistryClient& client, const Attached& attached);

/// Send what is attached to these manifests in a layout or archive, whose index has `entries`;
/// returns how many signatures that are.
size_t send_attached(RegistryClient& client, const BlobSource& blobs,
                     const std::vector<Descriptor>& entries,
                     const std::vector<Descriptor>& manifests);

/// Bring what is attached to an image that was pulled into the store. What goes wrong is an error
/// only if signatures are required.
void bring_signatures(RegistryClient& client, const Found& found, const Store& store,
                      SignaturesWanted wanted);

}  // namespace slipway::image
