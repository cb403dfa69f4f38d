// Decides which variables a command in a container sees, and says why.
// Must not: read our own environment; it is handed in.
#include "environment.hpp"

#include <fnmatch.h>

#include <string_view>

namespace slipway::runtime {

namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool has_component(std::string_view list, std::string_view wanted) {
    while (true) {
        const size_t colon = list.find(':');
        if (list.substr(0, colon) == wanted) return true;
        if (colon == std::string_view::npos) return false;
        list.remove_prefix(colon + 1);
    }
}

/// The decisions while they are made; a later one on the same variable replaces the earlier.
class Decisions {
 public:
    void set(const std::string& name, std::string value, std::string origin,
             std::string reason = {}) {
        rows_[name] = {name, std::move(value), std::move(origin), std::move(reason)};
    }
    void drop(const std::string& name, std::string origin, std::string reason) {
        rows_[name] = {name, std::nullopt, std::move(origin), std::move(reason)};
    }
    /// The variable as the command would have it now, or nullptr.
    EnvDecision* find(const std::string& name) {
        const auto found = rows_.find(name);
        return found == rows_.end() || !found->second.value ? nullptr : &found->second;
    }
    bool mentions(const std::string& name) const { return rows_.count(name) != 0; }
    std::map<std::string, EnvDecision>& rows() { return rows_; }
    std::vector<EnvDecision> take() {
        std::vector<EnvDecision> list;
        for (auto& [name, decision] : rows_) list.push_back(std::move(decision));
        return list;
    }

 private:
    std::map<std::string, EnvDecision> rows_;
};

/// What of the host enters, before the image has its say.
void take_host(Decisions& decisions, const EnvSpec& spec, const Environment& host,
               const Visible& visible) {
    for (const auto& [name, value] : host) {
        const NeededVariable* needed = find_needed(name);
        if (spec.keep)
            decisions.set(name, value, "host", "--keep-env");
        else if (const DroppedVariable* row = find_dropped(name))
            decisions.drop(name, "default", std::string(row->reason));
        else if (spec.clean && needed == nullptr)
            decisions.drop(name, "--clean-env", "no launcher, proxy or terminal needs it");
        else if (holds_path(name) && !visible(value))
            decisions.drop(name, "default", "its path is not seen inside");
        else
            decisions.set(name, value, "host",
                          std::string(needed != nullptr ? needed->reason : ""));
    }
}

void set_home(Decisions& decisions, const EnvSpec& spec, const Environment& host,
              const Visible& visible, const EnvUser& user) {
    const auto own = host.find("HOME");
    if (own != host.end() && (spec.keep || (user.own_home && visible(own->second)))) {
        decisions.set("HOME", own->second, "host",
                      spec.keep ? "--keep-env" : "its directory is seen inside");
        return;
    }
    decisions.set("HOME", user.home, "default",
                  user.home_reason.empty()
                      ? "the home directory is not seen inside: --home shows it"
                      : user.home_reason);
}

/// A user of the image is not called what the host calls the caller.
void set_user(Decisions& decisions, const EnvSpec& spec, const EnvUser& user) {
    if (!user.other || spec.keep) return;
    for (const char* name : {"USER", "LOGNAME"}) {
        if (!decisions.mentions(name)) continue;
        if (user.name.empty())
            decisions.drop(name, "default", "the user inside is another one");
        else
            decisions.set(name, user.name, "default", "the user inside");
    }
}

void set_defaults(Decisions& decisions, const EnvSpec& spec, const EnvUser& user) {
    if (!spec.keep || decisions.find("PATH") == nullptr)
        decisions.set("PATH", kDefaultPath, "default", "the host's is not the image's");
    if (!user.time_zone.empty() && !decisions.mentions("TZ"))
        decisions.set("TZ", user.time_zone, "default", "the host's time zone");
    decisions.set("container", "slipway", "default", "the convention of systemd and podman");
    if (spec.prompt.empty()) return;
    // Understood by every shell of the Bourne family; a shell's own start-up files may replace it.
    decisions.set("PS1", "[" + spec.prompt + "] $PWD\\$ ", "default",
                  "a prompt that names the image");
    decisions.set("debian_chroot", spec.prompt, "default",
                  "Debian's start-up files put it in front of their prompt");
}

void apply_image(Decisions& decisions, const image::ImageConfig& config) {
    for (const auto& entry : config.env) {
        const size_t equals = entry.find('=');
        if (equals == std::string::npos || equals == 0) continue;
        const std::string name = entry.substr(0, equals);
        EnvDecision* before = decisions.find(name);
        const bool of_host = before != nullptr && before->origin == "host";
        const NeededVariable* needed = of_host ? find_needed(name) : nullptr;
        if (needed != nullptr && needed->of_rank)
            before->reason = std::string(needed->reason) + "; the image's ENV does not change it";
        else
            decisions.set(name, entry.substr(equals + 1), "image ENV",
                          of_host ? "in place of the host's" : "");
    }
    EnvDecision* path = decisions.find("PATH");
    if (has_component(*path->value, "/bin")) return;
    *path->value += path->value->empty() ? "/bin" : ":/bin";
    path->reason = "with /bin added";
}

void apply_setting(Decisions& decisions, const EnvSetting& setting, const Environment& host) {
    const auto found = host.find(setting.name);
    switch (setting.kind) {
        case EnvSetting::Kind::set:
            if (setting.value)
                decisions.set(setting.name, *setting.value, setting.origin);
            else if (found != host.end())
                decisions.set(setting.name, found->second, setting.origin, "the host's value");
            else if (!decisions.mentions(setting.name))
                decisions.drop(setting.name, setting.origin, "the host does not have it");
            break;
        case EnvSetting::Kind::prefix:
            for (auto at = host.lower_bound(setting.name);
                 at != host.end() && at->first.starts_with(setting.name); ++at)
                decisions.set(at->first, at->second, setting.origin, "the host's value");
            break;
        case EnvSetting::Kind::unset:
            for (auto& [name, decision] : decisions.rows())
                if (decision.value &&
                    ::fnmatch(setting.name.c_str(), name.c_str(), FNM_EXTMATCH) == 0)
                    decision = {name, std::nullopt, setting.origin, ""};
            break;
    }
}

std::vector<EnvDecision> finish(Decisions& decisions, const EnvSpec& spec,
                                const Environment& host) {
    for (const auto& setting : spec.settings) apply_setting(decisions, setting, host);
    return decisions.take();
}

std::vector<EnvDecision> exact_decisions(const std::vector<std::string>& entries) {
    std::vector<EnvDecision> list;
    for (const auto& entry : entries) {
        const size_t equals = entry.find('=');
        list.push_back({entry.substr(0, equals),
                        equals == std::string::npos ? "" : entry.substr(equals + 1), "ch-run", ""});
    }
    return list;
}

}  // namespace

std::vector<EnvDecision> plan_host_environment(const RunSpec& spec, const Environment& host) {
    if (spec.env.exact) return exact_decisions(*spec.env.exact);
    Decisions decisions;
    EnvSpec all = spec.env;
    all.keep = !spec.env.clean;
    take_host(decisions, all, host, [](const std::string&) { return true; });
    for (auto& [name, decision] : decisions.rows()) {
        // The programs are the host's: what only breaks images enters unless --clean-env says no.
        if (decision.reason == "--keep-env" && !spec.env.keep) decision.reason.clear();
    }
    if (spec.env.clean)
        for (const char* name : {"HOME", "PATH"})
            if (const auto found = host.find(name); found != host.end())
                decisions.set(name, found->second, "host", "programs of the host need it");
    return finish(decisions, spec.env, host);
}

std::vector<EnvDecision> plan_environment(const RunSpec& spec, const Environment& host,
                                          const image::ImageConfig& config, const Visible& visible,
                                          const EnvUser& user) {
    if (spec.env.exact) return exact_decisions(*spec.env.exact);
    Decisions decisions;
    take_host(decisions, spec.env, host, visible);
    set_user(decisions, spec.env, user);
    set_home(decisions, spec.env, host, visible, user);
    set_defaults(decisions, spec.env, user);
    apply_image(decisions, config);
    return finish(decisions, spec.env, host);
}

std::vector<std::string> environment_strings(const std::vector<EnvDecision>& decisions) {
    std::vector<std::string> strings;
    for (const auto& decision : decisions)
        if (decision.value) strings.push_back(decision.name + "=" + *decision.value);
    return strings;
}

}  // namespace slipway::runtime
