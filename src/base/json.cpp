// JSON reading with errors that name their subject.
// Must not: know any document's schema.
#include "slipway/base/json.hpp"

#include <fmt/format.h>

namespace slipway {

namespace {

/// No document that we know nests deeper; values are copied and compared by recursion.
constexpr int kDeepest = 200;

bool nests_too_deep(std::string_view text) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '\\') {
            ++i;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == '[' || c == '{')) {
            if (++depth > kDeepest) return true;
        } else if (!quoted && (c == ']' || c == '}')) {
            --depth;
        }
    }
    return false;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& subject, ErrorKind kind) {
    if (nests_too_deep(text))
        throw Error(kind, fmt::format("{} nests values more than {} deep", subject, kDeepest));
    try {
        return Json::parse(text);
    } catch (const Json::parse_error& error) {
        throw Error(kind, fmt::format("{} is not JSON", subject))
            .note(fmt::format("at byte {}", error.byte));
    }
}

std::string json_string(const Json& object, const char* key, const std::string& subject,
                        std::string fallback, ErrorKind kind) {
    if (!object.is_object()) throw Error(kind, fmt::format("{} is not a JSON object", subject));
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return fallback;
    if (!it->is_string())
        throw Error(kind, fmt::format("{}: \"{}\" is not a string", subject, key));
    return it->get<std::string>();
}

std::vector<std::string> json_strings(const Json& object, const char* key,
                                      const std::string& subject, ErrorKind kind) {
    if (!object.is_object()) throw Error(kind, fmt::format("{} is not a JSON object", subject));
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return {};
    if (!it->is_array()) throw Error(kind, fmt::format("{}: \"{}\" is not a list", subject, key));
    std::vector<std::string> list;
    for (const auto& item : *it) {
        if (!item.is_string())
            throw Error(
                kind, fmt::format("{}: \"{}\" holds something that is not a string", subject, key));
        list.push_back(item.get<std::string>());
    }
    return list;
}

std::string to_text(const Json& value, int indent) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace slipway
