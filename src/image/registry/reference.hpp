// What stands behind docker://: a registry's host, a repository, a tag or digest. Private to the
// image room.
#pragma once

#include <string>
#include <string_view>

#include "slipway/base/digest.hpp"

namespace slipway::image {

struct RegistryReference {
    std::string host;        ///< "docker.io", "lab.example:5000"
    std::string repository;  ///< "library/debian"
    std::string tag;  ///< "latest" where neither tag nor digest was given; "" beside a digest
    Digest digest;    ///< empty: whatever the tag names today

    std::string name() const { return host + "/" + repository; }
    /// What a manifest is asked by: the digest, else the tag.
    std::string selector() const { return digest.empty() ? tag : digest.text(); }
    /// "lab.example:5000/group/image:tag" or "...@sha256:...".
    std::string text() const;
    /// The name under which the store keeps it; of a digest "REPO:sha256-HEX".
    std::string stored_name() const;
};

/// Understand [docker://][HOST[:PORT]/]REPO[:TAG][@DIGEST]. A first component without ".", ":" and
/// that is not "localhost" belongs to the repository; the host is then docker.io. Throws:
/// Error(usage). Source: distribution/reference, grammar in reference.go.
RegistryReference parse_registry_reference(std::string_view text);

}  // namespace slipway::image
