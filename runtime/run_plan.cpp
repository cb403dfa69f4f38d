// Plans a run: namespaces, mounts, environment, command.
// Must not: call the system; its tests hand in made-up hosts.
#include "run_plan.hpp"

#include <fmt/core.h>

#include "accounts.hpp"
#include "default_binds.hpp"
#include "environment.hpp"
#include "plan_command.hpp"
#include "session_identity.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::runtime {

namespace {

using image::RunnableImage;
using If = MountStep::IfMissing;
using Kind = MountStep::Kind;

MountStep account_step(const std::string& destination, AccountLines lines) {
    MountStep step;
    step.kind = Kind::file;
    step.if_missing = If::create;
    step.destination = destination;
    step.read_only = true;
    step.recursive = false;
    step.merge = true;
    step.content = std::move(lines.own);
    step.fallback = std::move(lines.fallback);
    step.origin = "default";
    return step;
}

MountStep image_step(const RunSpec& spec, const RunnableImage& image) {
    MountStep step;
    step.kind =
        image.kind == RunnableImage::Kind::squashfs ? Kind::image_squashfs : Kind::image_directory;
    step.source = image.path;
    step.image_offset_bytes = image.offset_bytes;
    step.destination = "/";
    step.read_only = !spec.mounts.write;
    step.origin = "image";
    return step;
}

std::vector<MountStep> plan_binds(const RunSpec& spec, const HostFacts& facts) {
    std::vector<MountStep> steps;
    for (const auto& bind : spec.mounts.binds) {
        if (facts.present.count(bind.source) == 0) {
            if (bind.optional) continue;
            throw Error(ErrorKind::not_found, fmt::format("cannot bind {}: it is not on this host",
                                                          slipway::quoted(bind.source)))
                .note("requested by: " + bind.origin)
                .hint("make it, name another source, or add \":optional\" after the destination");
        }
        MountStep step;
        step.if_missing = If::create;
        step.source = bind.source;
        step.destination = bind.destination;
        step.read_only = bind.read_only;
        step.origin = bind.origin;
        steps.push_back(std::move(step));
    }
    return steps;
}

std::vector<MountStep> plan_defaults(const HostFacts& facts) {
    std::vector<MountStep> steps;
    for (const auto& row : default_binds()) {
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

bool lies_below(const std::string& path, const std::string& directory) {
    return path == directory ||
           (path.starts_with(directory) && (directory == "/" || path[directory.size()] == '/'));
}

/// Tells whether a host path is seen under the same name: some bind shows it where it was.
Visible visible_through(const std::vector<MountStep>& mounts) {
    return [&mounts](const std::string& path) {
        bool visible = false;
        for (const auto& step : mounts) {
            if (step.kind != Kind::bind || !lies_below(path, step.destination)) continue;
            visible = step.source == step.destination;
        }
        return visible;
    };
}

/// One user on one host; then the job step and everything that the container is made of, or, under
/// a name of the user's own, that name alone: whoever comes with another plan is told so.
std::string session_key(const RunSpec& spec, const HostFacts& facts, const RunPlan& plan) {
    if (!spec.share_session) return "";
    const std::string user = fmt::format("{} {} {}", kSessionProtocol, facts.uid, facts.namespaces);
    if (!plan.session_name.empty()) return session_hash(user + " name " + plan.session_name);
    return session_hash(fmt::format("{} step {} {}\n{}", user, facts.launcher.name,
                                    facts.launcher.job, session_identity(plan)));
}

RunPlan plan_on_host(const RunSpec& spec, const HostFacts& facts, RunPlan plan) {
    plan.mounts = plan_binds(spec, facts);
    if (!plan.mounts.empty()) {
        MountStep root;
        root.kind = Kind::image_directory;
        root.source = root.destination = "/";
        root.origin = "image";
        plan.mounts.insert(plan.mounts.begin(), root);
        plan.namespaces = {"user", "mount"};
    }
    plan.environment = plan_host_environment(spec, facts.environment);
    plan.working_directory = spec.directory.value_or(facts.working_directory);
    return plan;
}

}  // namespace

RunPlan plan_run(const RunSpec& spec, const HostFacts& facts, const RunnableImage& image) {
    RunPlan plan;
    plan.uid_inside = plan.uid_outside = facts.uid;
    plan.gid_inside = plan.gid_outside = facts.gid;
    plan.argv = plan_command(spec, image.config);
    plan.fake_root_calls = spec.fake_root_calls;
    plan.hostname = spec.identity.hostname;
    plan.session_name = spec.session_name;
    plan.image_identity = image.identity;
    plan.linger_ms = spec.linger_ms;
    plan.timeout_ms = spec.timeout_ms;
    plan.detach_on_kill = spec.detach_on_kill;
    if (image.kind == RunnableImage::Kind::host) return plan_on_host(spec, facts, std::move(plan));
    if (spec.mounts.write && image.kind == RunnableImage::Kind::squashfs)
        throw Error(ErrorKind::unsupported,
                    fmt::format("cannot write to {}: a squashfs image never changes",
                                slipway::quoted(image.path)))
            .note("requested by: --write")
            .hint("convert it to a directory: slipway convert " + image.path +
                  " DIRECTORY; then run the directory with --write");
    plan.namespaces = {"user", "mount"};
    plan.mounts.push_back(image_step(spec, image));
    for (auto& step : plan_defaults(facts)) plan.mounts.push_back(std::move(step));
    const auto binds = plan_binds(spec, facts);
    const size_t files_at = plan.mounts.size();
    plan.mounts.insert(plan.mounts.end(), binds.begin(), binds.end());
    const std::string home = visible_through(plan.mounts)(facts.home) ? facts.home : "/";
    const auto files = {account_step("/etc/passwd", passwd_lines(facts, home)),
                        account_step("/etc/group", group_lines(facts))};
    plan.mounts.insert(plan.mounts.begin() + static_cast<std::ptrdiff_t>(files_at), files);
    plan.environment =
        plan_environment(spec, facts.environment, image.config, visible_through(plan.mounts));
    plan.working_directory =
        spec.directory.value_or(image.config.working_dir.empty() ? "/" : image.config.working_dir);
    plan.session_key = session_key(spec, facts, plan);
    return plan;
}

}  // namespace slipway::runtime
