// Words a plan and its reasons for people.
// Must not: decide anything, or say what the plan does not.
#include "explain_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "slipway/base/error.hpp"

namespace slipway::cli {
namespace {

using runtime::EnvDecision;
using runtime::MountStep;
using runtime::RunPlan;
using Kind = MountStep::Kind;

constexpr size_t kWidestName = 32;
constexpr size_t kWidestValue = 48;

/// As it is where that is plain, else quoted.
std::string shown(const std::string& text) {
    const bool plain = !text.empty() && std::none_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    return plain ? text : slipway::quoted(text);
}

std::string row(const char* label, const std::string& text) {
    return fmt::format("{:<12} {}\n", label, text);
}

std::string because(const EnvDecision& decision) {
    return decision.reason.empty() ? decision.origin : decision.origin + ": " + decision.reason;
}

std::string identity_text(const RunPlan& plan) {
    return fmt::format("{}:{} inside, {}:{} on the host ({})", plan.uid_inside, plan.gid_inside,
                       plan.uid_outside, plan.gid_outside, plan.reasons.identity);
}

std::string command_text(const RunPlan& plan) {
    if (plan.argv.empty()) return "none: the image has neither ENTRYPOINT nor CMD; name one";
    std::string text;
    if (!plan.shells.empty())
        text =
            fmt::format("the first of {} that the image has, as: ", fmt::join(plan.shells, ", "));
    for (const auto& part : plan.reasons.command) {
        for (const auto& word : part.words) text += shown(word) + " ";
        text += "(" + part.origin + ") ";
    }
    text.pop_back();
    return text;
}

std::string session_text(const RunPlan& plan) {
    if (plan.session_key.empty()) return "none (" + plan.reasons.session + ")";
    return fmt::format("{} ({})", plan.session_key, plan.reasons.session);
}

std::string what_of(const MountStep& step) {
    switch (step.kind) {
        case Kind::image_directory:
            return "directory " + shown(step.source);
        case Kind::image_squashfs:
            return "squashfs file " + shown(step.source);
        case Kind::bind:
            return step.source == step.destination ? "the host's" : "host's " + shown(step.source);
        case Kind::file:
            return step.merge ? "the image's entries and yours" : "written by Slipway";
        case Kind::directory:
            return "a directory of the image";
        default:
            return std::string(runtime::name_of(step.kind)) +
                   (step.source.empty() ? "" : " " + shown(step.source)) +
                   (step.options.empty() ? "" : " " + shown(step.options));
    }
}

std::string policy_of(const MountStep& step) {
    std::string text = step.read_only ? "read-only" : "writable";
    if (step.kind == Kind::directory) text.clear();
    if (step.destination == "/") return text;
    if (!text.empty()) text += ", ";
    switch (step.if_missing) {
        case MountStep::IfMissing::fail:
            return text + "must be in the image";
        case MountStep::IfMissing::skip:
            return text + "only if the image has it";
        case MountStep::IfMissing::create:
            return text + "made if missing";
    }
    return text;
}

std::string mounts_text(const RunPlan& plan) {
    if (plan.mounts.empty()) return row("mounts", "none");
    std::string text = "mounts\n";
    for (const auto& step : plan.mounts)
        text += fmt::format("  {:<20} {}; {} ({})\n", shown(step.destination), what_of(step),
                            policy_of(step), step.origin);
    return text;
}

/// Short: what the host hands over is counted, what is otherwise is told.
std::string environment_text(const RunPlan& plan) {
    size_t passed = 0;
    std::string set, dropped;
    for (const auto& decision : plan.reasons.environment) {
        if (!decision.value)
            dropped += fmt::format("  {:<20} not inside ({})\n", decision.name, because(decision));
        else if (decision.origin == "host")
            ++passed;
        else
            set += fmt::format("  {:<20} {} ({})\n", decision.name, shown(*decision.value),
                               because(decision));
    }
    return row("environment", fmt::format("{} variables of the host pass (--explain-env of "
                                          "slipway run lists them), and",
                                          passed)) +
           set + dropped;
}

}  // namespace

std::string environment_table(const RunPlan& plan) {
    const auto value_of = [](const EnvDecision& decision) {
        return decision.value ? shown(*decision.value) : "(not inside)";
    };
    size_t names = 8, values = 5;
    for (const auto& decision : plan.reasons.environment) {
        names = std::max(names, std::min(decision.name.size(), kWidestName));
        values = std::max(values, std::min(value_of(decision).size(), kWidestValue));
    }
    std::string text = fmt::format("{:<{}}  {:<{}}  WHY\n", "VARIABLE", names, "VALUE", values);
    for (const auto& decision : plan.reasons.environment)
        text += fmt::format("{:<{}}  {:<{}}  {}\n", decision.name, names, value_of(decision),
                            values, because(decision));
    return text;
}

std::string plan_text(const RunPlan& plan) {
    std::string text = row("user", identity_text(plan));
    text +=
        row("namespaces",
            plan.namespaces.empty() ? "none" : fmt::format("{}", fmt::join(plan.namespaces, ", ")));
    text += row("session", session_text(plan));
    if (plan.linger_ms > 0)
        text += row("linger", fmt::format("{} s (--linger)", plan.linger_ms / 1000.0));
    if (!plan.hostname.empty()) text += row("host name", plan.hostname + " (--hostname)");
    text += row("directory", fmt::format("{} ({})", shown(plan.working_directory),
                                         plan.reasons.working_directory));
    text += row("command", command_text(plan));
    if (plan.fake_root_calls)
        text += row("seccomp", "privileged calls succeed without effect (--seccomp)");
    if (plan.timeout_ms > 0)
        text += row("timeout", fmt::format("{} s (--timeout)", plan.timeout_ms / 1000.0));
    if (plan.detach_on_kill)
        text += row("detach", "the command outlives this program (--detach-on-kill)");
    return text + mounts_text(plan) + environment_text(plan);
}

}  // namespace slipway::cli
