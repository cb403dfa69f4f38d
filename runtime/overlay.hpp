// The kernel's overlay file system, mounted inside a user namespace.
#pragma once

#include <string>
#include <vector>

namespace slipway::runtime {

struct OverlayLayers {
    std::vector<std::string> lowers;  ///< base first
    std::string upper;
    std::string work;
};

/// Mount the layers on `target`, with `userxattr`, and `volatile` where the kernel has it: the
/// caller syncs what it keeps. Any number of layers that the kernel takes (500), any characters in
/// their paths. Pre: in a user namespace of our own. Throws: Error(host_forbids) with the remedy.
void mount_overlay(const OverlayLayers& layers, const std::string& target);

/// Remove the mark that `volatile` leaves in the work directory, so that it can be used again.
void clear_overlay_work(const std::string& work);

}  // namespace slipway::runtime
