// The flags of one instruction.
// Must not: know what a flag means.
#include "flags.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

const FlagRule& find_rule(const std::string& name, const std::vector<FlagRule>& rules,
                          std::string_view keyword) {
    for (const FlagRule& rule : rules)
        if (name == rule.name) return rule;
    Error error(ErrorKind::invalid_recipe, fmt::format("unknown flag --{} of {}", name, keyword));
    std::string nearest;
    size_t distance = 3;
    for (const FlagRule& rule : rules) {
        const size_t d = edit_distance(name, rule.name);
        if (d < distance) {
            distance = d;
            nearest = rule.name;
        }
    }
    if (!nearest.empty()) error.hint(fmt::format("did you mean --{}?", nearest));
    throw error;
}

}  // namespace

Flags::Flags(const std::vector<std::string>& words, const std::vector<FlagRule>& rules,
             std::string_view keyword) {
    for (const std::string& word : words) {
        const size_t equals = word.find('=');
        const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
        const FlagRule& rule = find_rule(name, rules, keyword);
        if (values_.count(name) != 0 && rule.kind != FlagRule::Kind::repeated)
            throw Error(ErrorKind::invalid_recipe,
                        fmt::format("the flag --{} of {} is given twice", name, keyword));
        std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (rule.kind == FlagRule::Kind::boolean) {
            if (equals == std::string::npos) value = "true";
            value = to_lower(value);
            if (value != "true" && value != "false")
                throw Error(ErrorKind::invalid_recipe,
                            fmt::format("the flag --{} of {} is true or false, not {}", name,
                                        keyword, slipway::quoted(value)));
        } else if (equals == std::string::npos) {
            throw Error(
                ErrorKind::invalid_recipe,
                fmt::format("the flag --{} of {} needs a value: --{}=...", name, keyword, name));
        }
        values_[name].push_back(std::move(value));
    }
}

std::string Flags::text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second.back();
}

std::optional<bool> Flags::boolean(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    return found->second.back() == "true";
}

std::vector<std::string> Flags::all(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<std::string>{} : found->second;
}

}  // namespace slipway::builder
