// Runs a RUN: the one place where the builder reaches the runtime.
// Must not: decide what is run; leave anything behind but the layer.
#include "run_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "run_mounts.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/runtime/step.hpp"
#include "text.hpp"
#include "users.hpp"

namespace slipway::builder {

namespace {

using image::Entry;
using image::EntryType;

bool defines(const std::vector<std::string>& environment, const std::string& name) {
    return std::any_of(environment.begin(), environment.end(),
                       [&](const std::string& entry) { return starts_with(entry, name + "="); });
}

/// What the step gets beside ENV and ARG, none of it part of its key: HOME, and the host's proxies,
/// without which a build behind one could download nothing.
std::vector<std::string> complete_environment(std::vector<std::string> environment,
                                              const std::string& home) {
    if (!defines(environment, "HOME")) environment.push_back("HOME=" + home);
    for (const char* name : {"http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy",
                             "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"}) {
        const char* value = std::getenv(name);
        if (value != nullptr && !defines(environment, name))
            environment.push_back(fmt::format("{}={}", name, value));
    }
    return environment;
}

/// Make the working directory in the upper layer if the image has none, as Docker does. The
/// image's directories on the way keep their modes and times.
void prepare_directory(const ImageTree& below, const std::string& directory,
                       const std::string& upper) {
    const auto find = [&below](const std::string& path) { return below.find(path); };
    const std::string path = resolve_links(find, directory, true);
    if (path.empty() || below.find(path)) return;
    std::vector<std::string> made;
    for (std::string at = path; !at.empty(); at = member_parent(at)) made.push_back(at);
    for (auto it = made.rbegin(); it != made.rend(); ++it)
        sys::mkdirat(AT_FDCWD, join_path(upper, *it), 0700);
    for (const std::string& at : made) {  // deepest first: what is made below changes a time
        const std::string place = join_path(upper, at);
        const auto old = below.find(at);
        sys::fchmodat(AT_FDCWD, place, old ? old->mode : 0755);
        if (old) sys::utimensat_nofollow(AT_FDCWD, place, old->mtime, 0);
    }
}

/// Owners of what a step left. The file system knows the caller's only: what the step made belongs
/// to its user, what was there keeps the owner that the layers below recorded.
image::OwnerOf owners_after(const ImageTree& below, Owner user) {
    return [&below, user](const std::string& path, uint32_t, uint32_t) {
        const auto old = below.find(path);
        if (!old) return std::pair(user.uid, user.gid);
        return std::pair(old->uid, old->gid);
    };
}

/// A directory of the image that the overlay copied up without any change says nothing new; it is
/// kept, because layers describe the parents of what they change. This tells whether there is
/// anything else.
bool changes_something(const LayerIndex& index, const ImageTree& below) {
    return std::any_of(index.entries.begin(), index.entries.end(), [&](const Entry& entry) {
        if (entry.type != EntryType::directory) return true;
        const auto old = below.find(entry.path);
        return !old || old->type != EntryType::directory || old->mode != entry.mode ||
               old->mtime != entry.mtime;
    });
}

std::optional<image::Layer> take_upper(image::Store& store, const ImageTree& below,
                                       const std::string& upper, Owner user,
                                       const LayerTimes& times) {
    LayerIndex index;
    auto scan = image::open_overlay_upper(upper, owners_after(below, user));
    Entry first;
    if (!scan->next(first)) return std::nullopt;

    auto changes = image::open_overlay_upper(upper, owners_after(below, user));
    IndexingSource indexed(*changes, index);
    const image::Layer layer = store.add_layer([&](int fd) {
        image::LayerWriter writer(fd, image::LayerCompression::zstd, times.clamp);
        writer.add_all(indexed);
        return writer.finish();
    });
    if (!changes_something(index, below)) return std::nullopt;
    save_layer_index(store, layer, index);
    store.adopt_unpacked(layer, upper);
    return layer;
}

}  // namespace

void require_run_support(const image::Store& store) {
    const TempDir place = store.overlay_directory();
    runtime::require_step_support(place.path());
}

RunOutcome run_command_layer(image::Store& store, const ImageTree& below, const RunAction& action,
                             const MountSources& sources, const LayerTimes& times) {
    const TempDir place = store.overlay_directory();
    const auto directory = [&](const char* name) {
        const std::string path = join_path(place.path(), name);
        sys::mkdirat(AT_FDCWD, path, 0755);
        sys::fchmodat(AT_FDCWD, path, 0755);
        return path;
    };
    const Account account = find_account(below, action.user);
    runtime::StepRequest request;
    for (const image::Layer& layer : below.layers())
        request.layers.push_back(store.unpacked_layer(layer));
    if (request.layers.empty()) request.layers.push_back(directory("empty"));
    request.upper = directory("upper");
    request.work = directory("work");
    if (const auto root = below.find("")) sys::fchmodat(AT_FDCWD, request.upper, root->mode | 0700);
    request.argv = action.argv;
    request.environment = complete_environment(action.environment, account.home);
    request.working_directory = action.working_directory;
    request.uid = account.owner.uid;
    request.gid = account.owner.gid;
    request.network = action.network;
    prepare_directory(below, action.working_directory, request.upper);

    const RunMounts mounts(store, place.path(), action, sources);
    for (const auto& bind : mounts.binds())
        request.binds.push_back({bind.source, bind.target, bind.read_only});
    RunOutcome outcome;
    outcome.status = runtime::run_step(request);
    if (!outcome.status.success()) return outcome;
    outcome.layer = take_upper(store, below, request.upper, account.owner, times);
    return outcome;
}

ExitStatus run_as_emulated_root(const std::vector<std::string>& argv,
                                const std::vector<std::string>& environment,
                                const std::string& working_directory) {
    runtime::StepRequest request;
    request.root = "/";
    request.argv = argv;
    request.environment = environment;
    request.working_directory = working_directory;
    return runtime::run_step(request);
}

}  // namespace slipway::builder
