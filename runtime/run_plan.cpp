// Plans a run: namespaces, mounts, environment, command.
// Must not: call the system; its tests hand in made-up hosts.
#include "run_plan.hpp"

#include <fmt/core.h>

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

std::string session_reason(const RunSpec& spec, const Launcher& launcher) {
    if (!spec.share_session) return "--session=none";
    if (!spec.session_name.empty()) return "--session=" + spec.session_name;
    if (launcher.name == "parent")
        return fmt::format("no launcher: shared by what process {} starts", launcher.job);
    return fmt::format("launcher {}, job step {}, found by {}", launcher.name, launcher.job,
                       launcher.sign);
}

/// One user on one host; then the job step and everything that the container is made of, or, under
/// a name of the user's own, that name alone: whoever comes with another plan is told so.
void set_session(const RunSpec& spec, const HostFacts& facts, RunPlan& plan) {
    plan.reasons.session = session_reason(spec, facts.launcher);
    if (!spec.share_session) return;
    plan.session_identity = session_identity(plan);
    const std::string user = fmt::format("{} {} {}", kSessionProtocol, facts.uid, facts.namespaces);
    plan.session_key =
        plan.session_name.empty()
            ? session_hash(fmt::format("{} step {} {}\n{}", user, facts.launcher.name,
                                       facts.launcher.job, plan.session_identity))
            : session_hash(user + " name " + plan.session_name);
}

void set_environment(RunPlan& plan, std::vector<EnvDecision> decisions) {
    plan.environment = environment_strings(decisions);
    plan.reasons.environment = std::move(decisions);
}

void set_command(RunPlan& plan, const RunSpec& spec, const HostFacts& facts,
                 const image::ImageConfig& config) {
    plan.reasons.command = plan_command(spec, config);
    for (const auto& part : plan.reasons.command)
        plan.argv.insert(plan.argv.end(), part.words.begin(), part.words.end());
    if (spec.shell) plan.shells = plan_shells(facts);
}

RunPlan plan_on_host(const RunSpec& spec, const HostFacts& facts, const RunnableImage& image,
                     RunPlan plan) {
    plan.mounts = plan_host_mounts(spec.mounts, facts);
    const bool other = plan.uid_inside != facts.uid || plan.gid_inside != facts.gid;
    if (plan.mounts.empty() && (other || !plan.hostname.empty()))
        plan.mounts.push_back(host_root_step());
    plan_stage(spec.mounts, facts, image, plan);
    if (!plan.mounts.empty()) plan.namespaces = {"user", "mount"};
    if (!plan.hostname.empty()) plan.namespaces.emplace_back("uts");
    set_environment(plan, plan_host_environment(spec, facts.environment));
    plan.working_directory = spec.directory.value_or(facts.working_directory);
    plan.reasons.working_directory = spec.directory ? "--cd" : "as on the host";
    plan.reasons.session = "the host's own files are shared by all anyway";
    return plan;
}

EnvUser env_user(const RunSpec& spec, const PlannedIdentity& identity, const HostFacts& facts) {
    EnvUser user;
    user.other = !identity.own;
    user.name = identity.name;
    user.time_zone = facts.time_zone;
    if (spec.mounts.home) {
        user.home = facts.home;
        user.home_reason = "--home";
    } else if (!identity.home.empty()) {
        user.own_home = false;
        user.home = identity.home;
        user.home_reason = fmt::format("of the user inside ({})", identity.reason);
    }
    return user;
}

}  // namespace

RunPlan plan_run(const RunSpec& spec, const HostFacts& facts, const RunnableImage& image,
                 const ImageAccounts& accounts) {
    const PlannedIdentity identity = plan_identity(spec, facts, image.config, accounts);
    RunPlan plan;
    plan.uid_inside = identity.uid;
    plan.gid_inside = identity.gid;
    plan.uid_outside = facts.uid;
    plan.gid_outside = facts.gid;
    plan.reasons.identity = identity.reason;
    set_command(plan, spec, facts, image.config);
    plan.fake_root_calls = spec.fake_root_calls;
    plan.export_directory = spec.export_directory;
    plan.hostname = spec.identity.hostname;
    plan.session_name = spec.session_name;
    plan.image_identity = image.identity;
    if (image.hold) plan.holds.push_back(image.hold);
    for (const auto& pack : spec.mounts.data)
        if (pack.hold) plan.holds.push_back(pack.hold);
    plan.linger_ms = spec.linger_ms;
    plan.timeout_ms = spec.timeout_ms;
    plan.detach_on_kill = spec.detach_on_kill;
    if (image.kind == RunnableImage::Kind::host)
        return plan_on_host(spec, facts, image, std::move(plan));
    plan.library_directories = spec.library_directories;
    plan.namespaces = {"user", "mount"};
    if (!plan.hostname.empty()) plan.namespaces.emplace_back("uts");
    plan.mounts = plan_image_mounts(spec.mounts, facts, image);
    const auto binds = plan_requested_mounts(spec.mounts, facts);
    const size_t files_at = plan.mounts.size();
    plan.mounts.insert(plan.mounts.end(), binds.begin(), binds.end());
    const Visible visible = visible_through(plan.mounts);
    const EnvUser user = env_user(spec, identity, facts);
    const std::string home = user.own_home && visible(facts.home) ? facts.home : user.home;
    const auto files = plan_identity_files(spec, facts, identity, home);
    set_environment(plan, plan_environment(spec, facts.environment, image.config, visible, user));
    plan.mounts.insert(plan.mounts.begin() + static_cast<std::ptrdiff_t>(files_at), files.begin(),
                       files.end());
    plan_working_directory(spec, image.config, plan);
    plan_stage(spec.mounts, facts, image, plan);
    if (plan.mounts.front().source == image.path) plan.image_file = image.squashfs;
    set_session(spec, facts, plan);
    return plan;
}

std::vector<int> descriptors_of(const RunPlan& plan) {
    std::vector<int> numbers;
    for (const auto& hold : plan.holds) numbers.push_back(hold->get());
    if (plan.image_file) numbers.push_back(plan.image_file->fd());
    return numbers;
}

}  // namespace slipway::runtime
