// Plans a run: namespaces, mounts, environment, command.
// Must not: call the system; its tests hand in made-up hosts.
#include "run_plan.hpp"

#include <fmt/core.h>

#include "accounts.hpp"
#include "environment.hpp"
#include "plan_command.hpp"
#include "plan_mounts.hpp"
#include "plan_stage.hpp"
#include "session_identity.hpp"
#include "slipway/base/error.hpp"

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

/// One user on one host; then the job step and everything that the container is made of, or, under
/// a name of the user's own, that name alone: whoever comes with another plan is told so.
std::string session_key(const RunSpec& spec, const HostFacts& facts, const RunPlan& plan) {
    if (!spec.share_session) return "";
    const std::string user = fmt::format("{} {} {}", kSessionProtocol, facts.uid, facts.namespaces);
    if (!plan.session_name.empty()) return session_hash(user + " name " + plan.session_name);
    return session_hash(fmt::format("{} step {} {}\n{}", user, facts.launcher.name,
                                    facts.launcher.job, session_identity(plan)));
}

RunPlan plan_on_host(const RunSpec& spec, const HostFacts& facts, const RunnableImage& image,
                     RunPlan plan) {
    plan.mounts = plan_host_mounts(spec.mounts, facts);
    plan_stage(spec.mounts, facts, image, plan);
    if (!plan.mounts.empty()) plan.namespaces = {"user", "mount"};
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
    plan.export_directory = spec.export_directory;
    plan.hostname = spec.identity.hostname;
    plan.session_name = spec.session_name;
    plan.image_identity = image.identity;
    plan.linger_ms = spec.linger_ms;
    plan.timeout_ms = spec.timeout_ms;
    plan.detach_on_kill = spec.detach_on_kill;
    if (image.kind == RunnableImage::Kind::host)
        return plan_on_host(spec, facts, image, std::move(plan));
    plan.namespaces = {"user", "mount"};
    plan.mounts = plan_image_mounts(spec.mounts, facts, image);
    const auto binds = plan_requested_mounts(spec.mounts, facts);
    const size_t files_at = plan.mounts.size();
    plan.mounts.insert(plan.mounts.end(), binds.begin(), binds.end());
    const std::string home = visible_through(plan.mounts)(facts.home) ? facts.home : "/";
    const auto files = {account_step("/etc/passwd", passwd_lines(facts, home)),
                        account_step("/etc/group", group_lines(facts))};
    plan.mounts.insert(plan.mounts.begin() + static_cast<std::ptrdiff_t>(files_at), files);
    plan_stage(spec.mounts, facts, image, plan);
    plan.environment =
        plan_environment(spec, facts.environment, image.config, visible_through(plan.mounts));
    plan.working_directory =
        spec.directory.value_or(image.config.working_dir.empty() ? "/" : image.config.working_dir);
    plan.session_key = session_key(spec, facts, plan);
    return plan;
}

}  // namespace slipway::runtime
