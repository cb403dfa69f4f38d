// Writes a plan's identity and compares two.
// Must not: leave out a member of a mount step: runs that differ in it would share a container.
#include "session_identity.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "plan_names.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

std::string describe(const MountStep& step) {
    std::string line = name_of(step.kind);
    if (!step.source.empty()) line += ' ' + slipway::quoted(step.source);
    line += " on " + slipway::quoted(step.destination);
    line += step.read_only ? ", read-only" : ", writable";
    if (step.no_exec) line += ", noexec";
    if (step.no_suid) line += ", nosuid";
    if (step.no_devices) line += ", nodev";
    if (!step.identity.empty()) line += ", state " + step.identity;
    if (!step.recursive) line += ", this mount only";
    if (step.if_missing != MountStep::IfMissing::create)
        line += fmt::format(", if missing: {}", name_of(step.if_missing));
    if (!step.options.empty()) line += ", options " + slipway::quoted(step.options);
    if (!step.content.empty() || !step.fallback.empty())
        line += ", text " + session_hash(step.content + '\0' + step.fallback);
    if (step.merge) line += ", merged";
    return line;
}

}  // namespace

std::string session_identity(const RunPlan& plan) {
    std::string text = fmt::format("ids {}:{} as {}:{}\n", plan.uid_outside, plan.gid_outside,
                                   plan.uid_inside, plan.gid_inside);
    text += "namespaces";
    for (const auto& name : plan.namespaces) text += ' ' + name;
    if (!plan.hostname.empty()) text += "\nhost name " + slipway::quoted(plan.hostname);
    text += "\nstate of the image " + plan.image_identity + '\n';
    for (const auto& step : plan.mounts) text += describe(step) + '\n';
    return text;
}

std::string session_hash(std::string_view text) {
    // FNV-1a with 128 bits. Source: RFC 9923.
    using Wide = unsigned __int128;
    constexpr Wide kPrime = (Wide{1} << 88) + 0x13b;
    Wide hash = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
    return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(hash >> 64),
                       static_cast<uint64_t>(hash));
}

std::vector<std::string> identity_differences(const std::string& ours, const std::string& theirs,
                                              size_t limit) {
    const auto our_lines = split(ours, '\n'), their_lines = split(theirs, '\n');
    std::vector<std::string> differences;
    const auto add = [&](const char* whose, const auto& lines, const auto& others) {
        size_t count = 0;
        for (const auto& line : lines) {
            if (std::find(others.begin(), others.end(), line) != others.end()) continue;
            if (count++ < limit) differences.push_back(fmt::format("{}: {}", whose, line));
        }
        if (count > limit) differences.push_back(fmt::format("{}: {} more", whose, count - limit));
    };
    add("this run", our_lines, their_lines);
    add("the session", their_lines, our_lines);
    return differences;
}

}  // namespace slipway::runtime
