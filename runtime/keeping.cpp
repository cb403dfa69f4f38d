// Notes which mount points were made in a directory that outlives the container.
// Must not: remove them; the server does, when the container has ended.
#include "keeping.hpp"

#include <linux/mount.h>
#include <sys/inotify.h>

#include "slipway/base/sys.hpp"

namespace slipway::runtime {

Keeping::Keeping(const RunPlan& plan, const UniqueFd& scratch)
    : upper_(plan.mounts.size() > 1 && plan.mounts[1].kind == MountStep::Kind::overlay
                 ? kept_directory(plan)
                 : ""),
      scratch_(scratch) {}

void Keeping::before(const std::string& destination) {
    if (upper_.empty()) return;
    for (auto& path : to_be_copied_up(upper_, destination))
        leftovers_.copied_up.push_back(std::move(path));
}

void Keeping::mark(const UniqueFd& directory) {
    if (marked_) return;
    sys::mkdirat(scratch_.get(), "mark", 0755);
    const UniqueFd tree = sys::open_tree(scratch_.get(), "mark", OPEN_TREE_CLONE);
    sys::move_mount(tree.get(), directory.get(), "a mark");
    marked_ = true;
}

void Keeping::hand_over(const std::vector<MountTree::Made>& made, FuseServer& server) {
    if (!marked_) return;
    leftovers_.made = made;
    send_leftovers(server, to_text(leftovers_),
                   sys::inotify_watch(fd_path(scratch_.get()) + "/.", IN_DELETE_SELF));
}

}  // namespace slipway::runtime
