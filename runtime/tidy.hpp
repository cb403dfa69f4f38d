// Mount points that were made in a directory that outlives the container, and their removal.
#pragma once

#include <string>

#include "mount_tree.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// The directory of the host that takes what is made in the container's root: a directory image
/// with --write, or the upper layer of a kept overlay. "" when nothing outlives the container.
std::string kept_directory(const RunPlan& plan);

/// What a container leaves in its kept directory when it ends.
struct Leftovers {
    std::vector<MountTree::Made> made;
    std::vector<std::string> copied_up;  ///< directories that the overlay copied for a mount point
};
std::string to_text(const Leftovers& leftovers);
Leftovers parse_leftovers(const std::string& text);

/// The directories above `path` that an overlay would copy to `upper` when something is made in
/// them.
std::vector<std::string> to_be_copied_up(const std::string& upper, const std::string& path);

/// Remove what is still empty. Never throws: nobody is left to be told.
void remove_leftovers(const std::string& directory, const Leftovers& leftovers);

}  // namespace slipway::runtime
