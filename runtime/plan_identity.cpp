// Decides who the command is inside, and which files say so.
// Must not: call the system; the image's accounts are handed in.
#include "plan_identity.hpp"

#include <fmt/core.h>

#include <string_view>

#include "accounts.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

/// The launcher's name when there is none: commands of one shell.
constexpr const char* kNoLauncher = "parent";

/// The fields of the first line of passwd(5) or group(5) whose field `at` is `wanted`.
std::optional<std::vector<std::string>> find_entry(std::string_view file, size_t at,
                                                   const std::string& wanted) {
    for (const std::string& line : split(file, '\n')) {
        auto fields = split(line, ':');
        if (fields.size() >= 4 && fields[at] == wanted && parse_id(fields[2])) return fields;
    }
    return std::nullopt;
}

bool is_root(const std::string& user) {
    const auto id = parse_id(user);
    return user == "root" || (id && *id == 0);
}

Error unknown(const char* what, const std::string& name, const UserRequest& request) {
    Error error(ErrorKind::not_found,
                fmt::format("the image has no {} {}", what, slipway::quoted(name)));
    error.note("requested by: " + request.origin);
    error.hint(request.origin == "--user"
                   ? "name one of the image's /etc/passwd and /etc/group, or a number"
                   : "keep your own ids with --uid $(id -u), or name another user with --user");
    return error;
}

/// As podman does it: a name first, then a number; the group is the one asked for, else the
/// user's of passwd, else 0.
PlannedIdentity look_up(const UserRequest& request, const HostFacts& facts,
                        const ImageAccounts& accounts) {
    PlannedIdentity identity;
    const auto number = parse_id(request.user);
    auto entry = find_entry(accounts.passwd, 0, request.user);
    if (!entry && number) entry = find_entry(accounts.passwd, 2, std::to_string(*number));
    if (entry) {
        identity.name = (*entry)[0];
        identity.uid = *parse_id((*entry)[2]);
        identity.gid = parse_id((*entry)[3]).value_or(0);
        if (entry->size() > 5) identity.home = (*entry)[5];
    } else if (number) {
        identity.uid = *number;
    } else if (request.user == facts.user_name) {  // inside, the caller is in passwd too
        identity.uid = facts.uid;
        identity.gid = facts.gid;
        identity.name = facts.user_name;
    } else {
        throw unknown("user", request.user, request);
    }
    if (request.group) {
        const auto group = find_entry(accounts.group, 0, *request.group);
        const auto id = group ? parse_id((*group)[2]) : parse_id(*request.group);
        if (!id) throw unknown("group", *request.group, request);
        identity.gid = *id;
        if (group) identity.group = (*group)[0];
    }
    if (identity.home.empty()) identity.home = identity.uid == 0 ? "/root" : "/";
    identity.reason = request.origin;
    return identity;
}

std::string own_reason(const RunSpec& spec, const HostFacts& facts,
                       const image::ImageConfig& config) {
    if (config.user.empty() || spec.identity.user) return "your own, as on the host";
    if (spec.identity.ignore_image_user || is_root(config.user.substr(0, config.user.find(':'))))
        return fmt::format("your own, as on the host; the image's USER {} does not count",
                           slipway::quoted(config.user));
    return fmt::format(
        "your own, as on the host: this is a rank of a launcher ({}), which compares ids, so the "
        "image's USER {} does not count",
        facts.launcher.sign, slipway::quoted(config.user));
}

MountStep file_step(const std::string& destination, std::string content, std::string origin) {
    MountStep step;
    step.kind = MountStep::Kind::file;
    step.if_missing = MountStep::IfMissing::create;
    step.destination = destination;
    step.read_only = true;
    step.recursive = false;
    step.content = std::move(content);
    step.origin = std::move(origin);
    return step;
}

MountStep account_step(const std::string& destination, AccountLines lines) {
    MountStep step = file_step(destination, std::move(lines.own), "default");
    step.merge = true;
    step.fallback = std::move(lines.fallback);
    return step;
}

}  // namespace

std::optional<UserRequest> user_to_look_up(const RunSpec& spec, const Launcher& launcher,
                                           const image::ImageConfig& config) {
    const IdentitySpec& wanted = spec.identity;
    if (wanted.user) return wanted.user;
    if (wanted.root || wanted.uid || wanted.gid || wanted.ignore_image_user ||
        config.user.empty() || launcher.name != kNoLauncher || !launcher.sign.empty())
        return std::nullopt;
    const UserRequest request = parse_user(config.user, "the image's USER");
    if (is_root(request.user)) return std::nullopt;
    return request;
}

PlannedIdentity plan_identity(const RunSpec& spec, const HostFacts& facts,
                              const image::ImageConfig& config, const ImageAccounts& accounts) {
    PlannedIdentity identity;
    const IdentitySpec& wanted = spec.identity;
    if (wanted.root) {
        identity.name = identity.group = "root";
        identity.home = "/root";
        identity.reason = "--root";
    } else if (const auto request = user_to_look_up(spec, facts.launcher, config)) {
        identity = look_up(*request, facts, accounts);
    } else {
        identity.uid = wanted.uid.value_or(facts.uid);
        identity.gid = wanted.gid.value_or(facts.gid);
        if (!wanted.uid && !wanted.gid)
            identity.reason = own_reason(spec, facts, config);
        else
            identity.reason = wanted.uid && wanted.gid ? "--uid, --gid"
                              : wanted.uid             ? "--uid"
                                                       : "--gid";
        if (wanted.uid == 0u) {
            identity.name = "root";
            identity.home = "/root";
        }
    }
    identity.own = identity.uid == facts.uid;
    if (identity.own) {
        identity.name = facts.user_name;
        identity.home.clear();
        identity.shell = facts.shell;
    }
    identity.own_group = identity.gid == facts.gid;
    if (identity.own_group) identity.group = facts.group_name;
    return identity;
}

std::vector<MountStep> plan_identity_files(const RunSpec& spec, const HostFacts& facts,
                                           const PlannedIdentity& identity,
                                           const std::string& home) {
    std::vector<MountStep> steps;
    if (!spec.identity.keep_accounts) {
        steps.push_back(account_step("/etc/passwd", passwd_lines(identity, home)));
        steps.push_back(account_step("/etc/group", group_lines(identity)));
    }
    if (const std::string& name = spec.identity.hostname; !name.empty()) {
        steps.push_back(file_step("/etc/hostname", name + "\n", "--hostname"));
        steps.push_back(file_step(
            "/etc/hosts", fmt::format("{}127.0.1.1 {}\n", facts.hosts_file, name), "--hostname"));
    }
    return steps;
}

}  // namespace slipway::runtime
