// Plans what a run mounts.
// Must not: call the system; its tests hand in made-up hosts.
#include "plan_mounts.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "default_binds.hpp"
#include "slipway/base/error.hpp"

namespace slipway::runtime {

namespace {

using image::RunnableImage;
using If = MountStep::IfMissing;
using Kind = MountStep::Kind;

constexpr const char* kTmp = "/tmp";

MountStep image_step(const MountSpec& spec, const RunnableImage& image) {
    MountStep step;
    step.kind =
        image.kind == RunnableImage::Kind::squashfs ? Kind::image_squashfs : Kind::image_directory;
    step.source = image.path;
    step.image_offset_bytes = image.offset_bytes;
    step.seal = image.seal.text();
    step.destination = "/";
    step.read_only = !spec.write;
    step.origin = "image";
    return step;
}

MountStep overlay_step(const MountSpec& spec) {
    MountStep step;
    step.kind = Kind::overlay;
    step.destination = "/";
    step.recursive = false;
    step.source = spec.overlay_directory.value_or("");
    if (spec.overlay_tmpfs && !spec.overlay_tmpfs->empty())
        step.options = "size=" + *spec.overlay_tmpfs;
    step.origin = "--overlay";
    return step;
}

MountStep private_tmp_step() {
    MountStep step;
    step.kind = Kind::tmpfs;
    step.if_missing = If::create;
    step.destination = kTmp;
    step.recursive = false;
    step.options = "mode=1777";
    step.origin = "--private-tmp";
    return step;
}

MountStep bind_step(const BindSpec& bind) {
    MountStep step;
    step.if_missing = If::create;
    step.source = bind.source;
    step.destination = bind.destination;
    step.read_only = bind.read_only;
    step.recursive = bind.recursive;
    step.no_exec = bind.no_exec;
    step.no_suid = bind.no_suid;
    step.no_devices = bind.no_devices;
    step.origin = bind.origin;
    return step;
}

Error missing(const BindSpec& bind, const char* hint) {
    return Error(ErrorKind::not_found, fmt::format("cannot bind {}: it is not on this host",
                                                   slipway::quoted(bind.source)))
        .note("requested by: " + bind.origin)
        .hint(hint);
}

std::vector<MountStep> plan_binds(const MountSpec& spec, const HostFacts& facts) {
    std::vector<MountStep> steps;
    if (spec.home) {
        BindSpec home;
        home.source = home.destination = facts.home;
        home.origin = "--home";
        if (facts.present.count(facts.home) == 0)
            throw missing(home, "leave --home out, or set HOME to a directory that is there");
        steps.push_back(bind_step(home));
    }
    for (const auto& bind : spec.binds) {
        const bool present = facts.present.count(bind.source) != 0;
        if (!present && bind.optional) continue;
        if (!present && !bind.create)
            throw missing(bind,
                          "make it, name another source, or add \":optional\" or \":create\" after "
                          "the destination");
        steps.push_back(bind_step(bind));
        steps.back().make_source = !present;
    }
    return steps;
}

MountStep data_step(const BindSpec& data, const FileFacts& file) {
    if (!file.regular)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is no file, so no data pack", slipway::quoted(data.source)))
            .note("requested by: " + data.origin)
            .hint("show a directory with --bind, or pack it: slipway convert " + data.source +
                  " FILE.sqfs");
    MountStep step = bind_step(data);
    step.kind = Kind::data_squashfs;
    step.recursive = false;
    step.identity = file.identity;
    step.seal = file.seal;
    return step;
}

bool lies_below(const std::string& path, const std::string& directory) {
    return path == directory ||
           (path.starts_with(directory) && (directory == "/" || path[directory.size()] == '/'));
}

}  // namespace

std::vector<MountStep> plan_image_mounts(const MountSpec& spec, const HostFacts& facts,
                                         const RunnableImage& image) {
    if (spec.write && image.kind == RunnableImage::Kind::squashfs)
        throw Error(ErrorKind::unsupported,
                    fmt::format("cannot write to {}: a squashfs image never changes",
                                slipway::quoted(image.path)))
            .note("requested by: --write")
            .hint(
                "take changes beside it with --overlay tmpfs or --overlay DIR, or convert it to a "
                "directory: slipway convert " +
                image.path + " DIRECTORY; then run the directory with --write");
    std::vector<MountStep> steps{image_step(spec, image)};
    if (spec.overlay_directory || spec.overlay_tmpfs) steps.push_back(overlay_step(spec));
    for (const auto& row : default_binds()) {
        if (row.path == kTmp && spec.private_tmp) {
            steps.push_back(private_tmp_step());
            continue;
        }
        if (facts.present.count(row.path) == 0) continue;
        MountStep step;
        step.if_missing = row.if_missing;
        step.source = step.destination = row.path;
        step.read_only = row.read_only;
        step.origin = "default";
        steps.push_back(std::move(step));
    }
    return steps;
}

std::vector<MountStep> plan_requested_mounts(const MountSpec& spec, const HostFacts& facts) {
    auto steps = plan_binds(spec, facts);
    for (const auto& data : spec.data) {
        const auto file = facts.files.find(data.source);
        if (file == facts.files.end() && data.optional) continue;
        if (file == facts.files.end())
            throw Error(ErrorKind::not_found,
                        fmt::format("cannot show the data pack {}: it is not on this host",
                                    slipway::quoted(data.source)))
                .note("requested by: " + data.origin)
                .hint("name another file, or add \":optional\" after the destination");
        const auto inside = std::find_if(steps.begin(), steps.end(), [&](const MountStep& step) {
            return step.kind == Kind::bind && step.destination != data.destination &&
                   lies_below(step.destination, data.destination);
        });
        steps.insert(inside, data_step(data, file->second));
    }
    return steps;
}

MountStep host_root_step() {
    MountStep root;
    root.kind = Kind::image_directory;
    root.source = root.destination = "/";
    root.origin = "image";
    return root;
}

std::vector<MountStep> plan_host_mounts(const MountSpec& spec, const HostFacts& facts) {
    if (spec.overlay_directory || spec.overlay_tmpfs)
        throw Error(ErrorKind::unsupported, "an overlay covers an image, not the host")
            .note("requested by: --overlay")
            .hint("name an image instead of /");
    auto steps = plan_requested_mounts(spec, facts);
    if (spec.private_tmp) steps.insert(steps.begin(), private_tmp_step());
    // The host's root shows the home directory already.
    std::erase_if(steps, [](const MountStep& step) { return step.origin == "--home"; });
    if (steps.empty()) return steps;
    steps.insert(steps.begin(), host_root_step());
    return steps;
}

Visible visible_through(const std::vector<MountStep>& mounts) {
    return [&mounts](const std::string& path) {
        bool visible = false;
        for (const auto& step : mounts) {
            const bool hides = step.kind == Kind::tmpfs || step.kind == Kind::data_squashfs;
            if ((step.kind != Kind::bind && !hides) || !lies_below(path, step.destination))
                continue;
            visible = step.kind == Kind::bind && step.source == step.destination;
        }
        return visible;
    };
}

}  // namespace slipway::runtime
