// Removes the empty mount points of a container that has ended.
// Must not: remove anything that is not empty, or follow a link out of the directory.
#include "tidy.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

using Kind = MountStep::Kind;
using Type = MountTree::Type;

bool is_opaque(const Root& root, const std::string& path) {
    const auto directory = root.open_if_exists(path, O_PATH | O_DIRECTORY);
    return !directory ||
           sys::getxattr_nofollow(fd_path(directory->get()) + "/.", "user.overlay.opaque");
}

void remove_empty(const Root& root, const std::string& path, Type type) {
    const auto parent = root.open_if_exists(std::string(parent_path(path)), O_PATH | O_DIRECTORY);
    if (!parent) return;
    const std::string name(base_name(path));
    if (type == Type::directory) {
        ::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR);
        return;
    }
    const auto status = sys::stat_if_exists(parent->get(), name, AT_SYMLINK_NOFOLLOW);
    if (status && S_ISREG(status->st_mode) && status->st_size == 0)
        ::unlinkat(parent->get(), name.c_str(), 0);
}

}  // namespace

std::string kept_directory(const RunPlan& plan) {
    if (plan.mounts.empty()) return {};
    const MountStep& image = plan.mounts.front();
    if (image.kind == Kind::image_directory && !image.read_only && image.source != "/")
        return image.source;
    if (plan.mounts.size() < 2 || plan.mounts[1].kind != Kind::overlay) return {};
    return plan.mounts[1].source.empty() ? "" : join_path(plan.mounts[1].source, "upper");
}

std::string to_text(const Leftovers& leftovers) {
    Json made = Json::array();
    for (const auto& one : leftovers.made) made.push_back({one.path, one.type == Type::directory});
    return slipway::to_text(Json{{"made", made}, {"copied_up", leftovers.copied_up}});
}

Leftovers parse_leftovers(const std::string& text) {
    const Json json = Json::parse(text);
    Leftovers leftovers;
    for (const auto& one : json.at("made"))
        leftovers.made.push_back(
            {one.at(0).get<std::string>(), one.at(1).get<bool>() ? Type::directory : Type::file});
    leftovers.copied_up = json.at("copied_up").get<std::vector<std::string>>();
    return leftovers;
}

std::vector<std::string> to_be_copied_up(const std::string& upper, const std::string& path) {
    std::vector<std::string> missing;
    for (std::string parent(parent_path(path)); parent != "/" && !parent.empty();
         parent = std::string(parent_path(parent)))
        if (!sys::stat_if_exists(AT_FDCWD, join_path(upper, parent), AT_SYMLINK_NOFOLLOW))
            missing.push_back(parent);
    return missing;
}

void remove_leftovers(const std::string& directory, const Leftovers& leftovers) {
    try {
        const Root root(directory);
        for (auto it = leftovers.made.rbegin(); it != leftovers.made.rend(); ++it)
            remove_empty(root, it->path, it->type);
        // Deepest first, as to_be_copied_up() found them. An opaque one stands for a removal.
        for (const auto& path : leftovers.copied_up)
            if (!is_opaque(root, path)) remove_empty(root, path, Type::directory);
    } catch (const Error&) {
    }
}

}  // namespace slipway::runtime
