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

/// Every member of a step is named here, so that a new one cannot be forgotten; the origin alone
/// does not count.
std::string describe(const MountStep& step) {
    const auto& [kind, if_missing, source, offset_bytes, destination, read_only, recursive, no_exec,
                 no_suid, no_devices, make_source, identity, seal, options, content, merge,
                 fallback, origin] = step;
    std::string line = name_of(kind);
    if (!source.empty()) line += ' ' + slipway::quoted(source);
    if (offset_bytes != 0) line += fmt::format(" at byte {}", offset_bytes);
    line += " on " + slipway::quoted(destination);
    line += read_only ? ", read-only" : ", writable";
    if (no_exec) line += ", noexec";
    if (no_suid) line += ", nosuid";
    if (no_devices) line += ", nodev";
    if (make_source) line += ", made if missing";
    if (!identity.empty()) line += ", state " + identity;
    if (!seal.empty()) line += ", verified as " + seal;
    if (!recursive) line += ", this mount only";
    if (if_missing != MountStep::IfMissing::create)
        line += fmt::format(", if missing: {}", name_of(if_missing));
    if (!options.empty()) line += ", options " + slipway::quoted(options);
    if (!content.empty() || !fallback.empty())
        line += ", text " + session_hash(content + '\0' + fallback);
    if (merge) line += ", merged";
    (void)origin;
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
    for (const auto& directory : plan.library_directories)
        text += "libraries of " + slipway::quoted(directory) + '\n';
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
