// JSON reading with errors that name their subject.
// Must not: know any document's schema.
#include "slipway/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace slipway {

namespace {

/// No document that we know nests deeper; values are copied and compared by recursion.
constexpr int kDeepest = 200;

/// What can be seen of a document without reading its values.
struct Outline {
    struct Value {
        size_t from, to;
    };
    int deepest = 0;
    std::vector<Value> values;  ///< of the members asked for, in their order in the text
};

/// `members`: of the outermost object.
Outline look_over(std::string_view text, std::span<const std::string_view> members) {
    Outline seen;
    int depth = 0;
    std::optional<size_t> value;  // where that of a member asked for begins
    std::string_view last;        // string of the outermost object
    const auto end_value = [&](size_t at) {
        if (depth == 1 && value) seen.values.push_back({*std::exchange(value, std::nullopt), at});
    };
    for (size_t i = 0; i < text.size(); ++i) {
        switch (text[i]) {
            case '"': {
                const size_t begin = i + 1;
                for (++i; i < text.size() && text[i] != '"'; ++i)
                    if (text[i] == '\\') ++i;
                if (depth == 1) last = text.substr(begin, std::min(i, text.size()) - begin);
                break;
            }
            case '{':
            case '[':
                seen.deepest = std::max(seen.deepest, ++depth);
                break;
            case '}':
            case ']':
                end_value(i);
                --depth;
                break;
            case ',':
                end_value(i);
                break;
            case ':':
                if (depth == 1 && std::ranges::find(members, last) != members.end()) value = i + 1;
                break;
            default:
                break;
        }
    }
    return seen;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& subject, ErrorKind kind) {
    return parse_json_without({}, text, subject, kind);
}

Json parse_json_without(std::span<const std::string_view> members, std::string_view text,
                        const std::string& subject, ErrorKind kind) {
    const Outline seen = look_over(text, members);
    if (seen.deepest > kDeepest)
        throw Error(kind, fmt::format("{} nests values more than {} deep", subject, kDeepest));
    if (!seen.values.empty()) {
        std::string rest;
        size_t from = 0;
        for (const auto& value : seen.values) {
            rest.append(text, from, value.from - from) += "null";
            from = value.to;
        }
        rest.append(text, from);
        Json json = Json::parse(rest, nullptr, /*allow_exceptions=*/false);
        if (!json.is_discarded()) return json;  // else: where the mistake is, in the whole text
    }
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
