// The second step: logical lines -> keyword, flags and arguments.
// Must not: expand variables or refuse unknown keywords.
#include "syntax.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

[[noreturn]] void fail(std::string message) {
    throw Error(ErrorKind::invalid_recipe, std::move(message));
}

/// The flags at the beginning of an instruction's text, and what follows them.
std::string_view take_flags(std::string_view line, std::vector<std::string>& flags) {
    size_t at = 0;
    while (true) {
        line = trim_left(line.substr(at));
        if (line.substr(0, 2) != "--") return line;
        std::string word;
        bool quoted_part = false;
        char quote = 0;
        for (at = 0; at < line.size();) {
            size_t width = 0;
            const char32_t rune = decode_rune(line, at, width);
            const std::string_view bytes = line.substr(at, width);
            if (quote == 0 && is_space(rune)) break;
            at += width;
            if (quote == 0 && (rune == '\'' || rune == '"')) {
                quote = bytes[0];
                quoted_part = true;
            } else if (quote != 0 && bytes[0] == quote) {
                quote = 0;
            } else if (rune == '\\') {
                if (at == line.size()) break;
                decode_rune(line, at, width);
                word += line.substr(at, width);
                at += width;
            } else {
                word += bytes;
            }
        }
        if (word == "--") return line.substr(at);
        if (quoted_part || !word.empty()) flags.push_back(std::move(word));
    }
}

/// Words separated by white space; quotes keep white space inside and stay, as do escapes.
std::vector<std::string> quoted_words(std::string_view text, char escape) {
    std::vector<std::string> words;
    std::string word;
    bool blank_ok = false, in_word = false;
    char quote = 0;
    const auto finish = [&] {
        if (blank_ok || !word.empty()) words.push_back(std::move(word));
        word.clear();
        blank_ok = in_word = false;
    };
    for (size_t at = 0; at < text.size();) {
        size_t width = 0;
        const char32_t rune = decode_rune(text, at, width);
        const std::string_view bytes = text.substr(at, width);
        at += width;
        if (quote == 0 && is_space(rune)) {
            if (in_word) finish();
            continue;
        }
        in_word = true;
        const bool escaping = bytes[0] == escape && quote != '\'';
        if (escaping) {
            if (at == text.size()) continue;  // an escape at the very end is dropped
            word += bytes;
            decode_rune(text, at, width);
            word += text.substr(at, width);
            at += width;
            continue;
        }
        if (quote != 0) {
            if (bytes[0] == quote) quote = 0;
        } else if (rune == '\'' || rune == '"') {
            quote = bytes[0];
            blank_ok = true;
        }
        word += bytes;
    }
    if (in_word) finish();
    return words;
}

/// A JSON array of strings; false if the text is no JSON array.
bool parse_json_form(std::string_view text, std::vector<std::string>& arguments) {
    text = trim_left(text);
    if (text.empty() || text[0] != '[') return false;
    const Json value = Json::parse(text.begin(), text.end(), nullptr, false);
    if (value.is_discarded() || !value.is_array()) return false;
    for (const Json& member : value) {
        if (!member.is_string())
            fail("the JSON form may hold strings only (write numbers in double quotes)");
        arguments.push_back(member.get<std::string>());
    }
    return true;
}

void parse_command_line(std::string_view rest, SyntaxNode& node) {
    if (rest.empty()) return;
    node.json = parse_json_form(rest, node.arguments);
    if (!node.json) node.arguments.emplace_back(rest);
}

void parse_words_or_json(std::string_view rest, SyntaxNode& node) {
    node.json = parse_json_form(rest, node.arguments);
    if (!node.json && !rest.empty()) node.arguments = split_blanks(rest);
}

void parse_pairs(std::string_view rest, char escape, SyntaxNode& node) {
    const auto words = quoted_words(rest, escape);
    if (words.empty()) return;
    if (words[0].find('=') == std::string::npos) {
        const auto parts = split_blanks(rest, 2);
        if (parts.size() < 2)
            fail(fmt::format("{} must have two arguments", to_upper(node.keyword)));
        node.arguments = {parts[0], parts[1], ""};
        return;
    }
    for (const std::string& word : words) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos)
            fail(fmt::format("there is no = in {}: it must have the form name=value",
                             slipway::quoted(word)));
        node.arguments.insert(node.arguments.end(),
                              {word.substr(0, equals), word.substr(equals + 1), "="});
    }
}

void parse_healthcheck(std::string_view rest, SyntaxNode& node) {
    size_t end = 0, width = 0;
    while (end < rest.size() && !is_space(decode_rune(rest, end, width))) end += width;
    if (end == 0) return;
    const std::string type(rest.substr(0, end));
    parse_command_line(trim_left(rest.substr(end)), node);
    node.arguments.insert(node.arguments.begin(), type);
}

SyntaxNode parse_node(std::string_view line, char escape);

void parse_arguments(std::string_view rest, char escape, SyntaxNode& node) {
    enum class Grammar { pairs, words, blanks, blanks_or_json, command, text, health, trigger };
    static const std::map<std::string, Grammar> kGrammars = {
        {"add", Grammar::blanks_or_json},    {"arg", Grammar::words},
        {"cmd", Grammar::command},           {"copy", Grammar::blanks_or_json},
        {"entrypoint", Grammar::command},    {"env", Grammar::pairs},
        {"expose", Grammar::blanks},         {"from", Grammar::blanks},
        {"healthcheck", Grammar::health},    {"label", Grammar::pairs},
        {"maintainer", Grammar::text},       {"onbuild", Grammar::trigger},
        {"run", Grammar::command},           {"shell", Grammar::command},
        {"stopsignal", Grammar::text},       {"user", Grammar::text},
        {"volume", Grammar::blanks_or_json}, {"workdir", Grammar::text},
    };
    const auto grammar = kGrammars.find(node.keyword);
    if (grammar == kGrammars.end()) {
        node.arguments = {""};
        return;
    }
    switch (grammar->second) {
        case Grammar::pairs:
            return parse_pairs(rest, escape, node);
        case Grammar::words:
            node.arguments = quoted_words(rest, escape);
            return;
        case Grammar::blanks:
            if (!rest.empty()) node.arguments = split_blanks(rest);
            return;
        case Grammar::blanks_or_json:
            return parse_words_or_json(rest, node);
        case Grammar::command:
            return parse_command_line(rest, node);
        case Grammar::text:
            if (!rest.empty()) node.arguments.emplace_back(rest);
            return;
        case Grammar::health:
            return parse_healthcheck(rest, node);
        case Grammar::trigger:
            if (!rest.empty()) node.trigger.push_back(parse_node(rest, escape));
            return;
    }
}

SyntaxNode parse_node(std::string_view line, char escape) {
    SyntaxNode node;
    node.original = line;
    const auto parts = split_blanks(trim(line), 2);
    node.keyword = to_lower(parts[0]);
    if (parts.size() < 2) {
        parse_arguments({}, escape, node);
        return node;
    }
    const std::string_view rest = take_flags(parts[1], node.flags);
    parse_arguments(trim(rest), escape, node);
    return node;
}

void read_heredocs(LineReader& reader, SyntaxNode& node) {
    const SyntaxNode& holder = node.trigger.empty() ? node : node.trigger[0];
    const bool can = holder.keyword == "add" || holder.keyword == "copy" || holder.keyword == "run";
    if (!can || holder.json || node.original.find("<<") == std::string::npos) return;
    auto heredocs = heredocs_of_line(node.original);
    for (Heredoc& heredoc : heredocs) reader.read_heredoc(heredoc, node.place.first_line);
    node.place.last_line = reader.line_number();
    if (!node.trigger.empty()) node.trigger[0].heredocs = heredocs;
    node.heredocs = std::move(heredocs);
}

std::string dump_node(const SyntaxNode& node) {
    std::string text = "(" + node.keyword;
    if (!node.flags.empty()) {
        std::vector<std::string> flags;
        for (const std::string& flag : node.flags) flags.push_back(go_quoted(flag));
        text += " [" + join(flags, " ") + "]";
    }
    for (const SyntaxNode& child : node.trigger) text.append(" ").append(dump_node(child));
    for (const std::string& argument : node.arguments) text.append(" ").append(go_quoted(argument));
    return text + ")";
}

}  // namespace

SyntaxTree parse_syntax(std::string_view bytes, const std::string& subject) {
    SyntaxTree tree;
    LineReader reader(bytes, subject);
    while (auto line = reader.next()) {
        SyntaxNode node;
        try {
            node = parse_node(line->text, reader.escape());
        } catch (const Error& error) {
            throw Error(error.kind(), fmt::format("{}, line {}: {}", subject,
                                                  line->place.first_line, error.message()));
        }
        node.place = line->place;
        read_heredocs(reader, node);
        for (SyntaxNode& child : node.trigger) child.place = node.place;
        tree.nodes.push_back(std::move(node));
    }
    if (tree.nodes.empty())
        throw Error(ErrorKind::invalid_recipe, fmt::format("{} holds no instructions", subject));
    tree.escape = reader.escape();
    tree.directives = reader.directives();
    tree.warnings = reader.warnings();
    return tree;
}

std::string dump(const SyntaxTree& tree) {
    std::string text;
    for (const SyntaxNode& node : tree.nodes) text += dump_node(node) + "\n";
    return text;
}

}  // namespace slipway::builder
