// Tells versions, every setting with the layer that won, and the site's policy.
// Must not: hide a layer that lost; that is what people look for.
#include <fmt/core.h>
#include <sys/utsname.h>

#include "doctor_checks.hpp"
#include "policy.hpp"
#include "slipway/runtime/configuration.hpp"
#include "slipway/runtime/trust.hpp"

namespace slipway::runtime::doctor {

namespace {

using Level = Finding::Level;

Finding check_versions() {
    utsname name{};
    ::uname(&name);
    return good("versions", fmt::format("slipway {}, {} {} on {}", SLIPWAY_VERSION, name.sysname,
                                        name.release, name.machine));
}

Finding tell_setting(const SettingRow& row, const std::vector<Setting>& layers) {
    const auto text = [&](const Setting& layer) {
        return layer.value.empty() ? std::string(row.built_in) : slipway::quoted(layer.value);
    };
    std::string found = fmt::format("{}, by {}", text(layers.back()), layers.back().origin);
    for (size_t i = layers.size() - 1; i-- > 0;)
        if (layers.size() > 1)
            found += fmt::format("; over {}, by {}", text(layers[i]), layers[i].origin);
    return good(std::string("setting ") + row.name, found);
}

Findings tell_configuration() {
    try {
        const Configuration configuration = load_configuration();
        Findings findings;
        for (const auto& row : setting_rows())
            findings.push_back(tell_setting(row, configuration.settings.at(row.name)));
        std::string changes;
        for (const auto& change : configuration.environment)
            changes += fmt::format("{}{} {}, by {}", changes.empty() ? "" : "; ",
                                   change.kind == EnvChange::Kind::unset ? "unset" : "set",
                                   slipway::quoted(change.typed.text), change.typed.origin);
        findings.push_back(good("setting env", changes.empty() ? "no changes" : changes));
        return findings;
    } catch (const Error& error) {
        return {failed(Level::problem, "configuration", error,
                       "every subcommand that needs a setting fails")};
    }
}

Finding tell_policy() {
    try {
        const auto policy = load_policy();
        if (!policy) return good("site policy", "none");
        std::string rules;
        const auto add = [&](const char* name,
                             const std::optional<std::vector<std::string>>& list) {
            if (!list) return;
            rules += fmt::format("; {}:", name);
            for (const auto& word : *list) rules += " " + word;
            if (list->empty()) rules += " none";
        };
        add("owners", policy->owners);
        add("paths", policy->paths);
        add("formats", policy->formats);
        add("write modes", policy->write_modes);
        Finding finding = good("site policy", policy->file + rules);
        if (!policy->require_signature) return finding;
        finding.found += "; signatures required";
        image::TrustedKeys keys;
        keys.add_directory(site_trust_directory());
        if (!keys.empty()) return finding;
        finding.level = Level::problem;
        finding.meaning = fmt::format("no image runs: there is no key in {}",
                                      slipway::quoted(site_trust_directory()));
        finding.remedy =
            "ask the administrator to put the public keys (*.pem) of those who sign there";
        return finding;
    } catch (const Error& error) {
        return failed(Level::problem, "site policy", error,
                      "no image runs until the administrator has corrected it");
    }
}

}  // namespace

Findings check_settings() {
    Findings findings = tell_configuration();
    findings.insert(findings.begin(), check_versions());
    findings.push_back(tell_policy());
    return findings;
}

}  // namespace slipway::runtime::doctor
