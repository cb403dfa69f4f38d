// What refers to a manifest in a registry: asked for, and added. Private to the image room.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../oci/model.hpp"
#include "client.hpp"

namespace slipway::image {

/// The manifests whose subject is this one; each descriptor's json has artifactType and
/// annotations, as far as they are told. A registry may, and need not, leave out what is not of
/// `artifact_type`. From the referrers interface, page by page, or, where a registry has none, from
/// the tag sha256-HEX. Throws: Error(io) with the registry's answer. Source:
/// opencontainers/distribution-spec 1.1, "Listing Referrers".
std::vector<Descriptor> list_referrers(RegistryClient& client, const Digest& subject,
                                       const std::string& artifact_type = {});

/// What is there of cosign's tags of a manifest (.sig, .att, .sbom), each with its tag.
std::vector<Descriptor> list_cosign_tags(RegistryClient& client, const Digest& subject);

/// Put a manifest that has a subject; a registry that does not say that it noted the subject gets
/// the tag sha256-HEX updated.
void put_referrer(RegistryClient& client, const Digest& subject, const Descriptor& referrer,
                  const std::string& manifest);

/// A manifest's or index's text and type by tag or digest; std::nullopt where there is none.
struct TaggedText {
    std::string text, media_type;
};
std::optional<TaggedText> find_manifest(RegistryClient& client, const std::string& tag);

/// Change what a tag names: `change` is handed the text that is there ("": none) and returns the
/// new one, or "" when nothing is left to change. It is asked again after each writing, so that
/// what somebody else wrote meanwhile is seen. A tag cannot be written on a condition: two that
/// write within the same instant lose one change until its writer looks again, and a writer that
/// does not look loses his. Throws: Error(busy) when it does not come to rest.
void change_tag(RegistryClient& client, const std::string& tag, const std::string& media_type,
                const std::function<std::string(const std::string& text)>& change);

/// Put a small blob, if the registry lacks it.
void put_small_blob(RegistryClient& client, const std::string& text);
/// Read a small blob or manifest, checked. Throws: Error(invalid_image), Error(io).
std::string read_small_blob(RegistryClient& client, const Descriptor& descriptor, bool is_manifest);

}  // namespace slipway::image
