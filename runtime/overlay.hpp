// The kernel's overlay file system, mounted inside a user namespace.
#pragma once

#include <string>
#include <vector>

#include "slipway/base/fd.hpp"
#include "slipway/runtime/run.hpp"

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

/// Mount a run's overlay: `holder` is a directory of ours with the image on its entry "lower" and a
/// place for the result, "root". Changes go to a tmpfs, or to upper/ in the step's source, which is
/// made if missing and is nobody else's meanwhile (lock_overlay()).
/// Pre: in a user and mount namespace of our own. Throws: Error(host_forbids) or Error(unsupported)
/// with what is missing and what works.
void mount_run_overlay(const MountStep& step, const UniqueFd& holder);

/// Remove the kernel's own directory from a kept overlay that is not mounted: its mode keeps rm -r
/// out. The next mount makes it anew. Throws: SysError.
void remove_work(const std::string& directory);

/// Lock the directory of a kept overlay, made if missing; held until the descriptor and its copies
/// in other processes are closed. Throws: Error(busy) naming who has it.
UniqueFd lock_overlay(const MountStep& step);

}  // namespace slipway::runtime
