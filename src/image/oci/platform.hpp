// Platforms as texts, "linux/amd64" or "linux/arm/v7", always in the form of platform_name().
// Private to the image room.
#pragma once

#include <string>
#include <vector>

namespace slipway::image {

/// Put a platform together, in the words of OCI: x86_64 is amd64, aarch64 and arm64/v8 are arm64,
/// armhf is arm/v7. Source: containerd, platforms/database.go.
std::string platform_name(std::string os, std::string architecture, std::string variant);

/// This machine's: "linux/amd64".
std::string host_platform();

/// What can be taken where `platform` is wanted, the best first: itself, then earlier variants of
/// the same architecture.
std::vector<std::string> platforms_for(const std::string& platform);
bool serves_platform(const std::string& offered, const std::string& wanted);

}  // namespace slipway::image
