// The flags of one instruction (`--chown=a:b`), against a table of what it accepts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipway::builder {

struct FlagRule {
    enum class Kind { text, boolean, repeated } kind;
    const char* name;
};

/// Parsed flags. A boolean accepts bare, =true and =false; a text needs "="; only a repeated flag
/// may stand twice.
class Flags {
 public:
    /// Throws: Error(invalid_recipe), with a hint when a known flag comes near.
    Flags(const std::vector<std::string>& words, const std::vector<FlagRule>& rules,
          std::string_view keyword);
    std::string text(const std::string& name) const;  ///< "" if absent
    bool flag(const std::string& name) const { return boolean(name).value_or(false); }
    std::optional<bool> boolean(const std::string& name) const;
    std::vector<std::string> all(const std::string& name) const;

 private:
    std::map<std::string, std::vector<std::string>> values_;
};

}  // namespace slipway::builder
