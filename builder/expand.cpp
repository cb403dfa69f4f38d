// Variables, quotes and escapes in a Dockerfile's words.
// Must not: read the environment of this process.
#include "expand.hpp"

#include <fmt/format.h>

#include "glob.hpp"
#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

constexpr char32_t kEnd = 0xFFFFFFFF;

[[noreturn]] void fail(std::string message) {
    throw Error(ErrorKind::invalid_recipe, std::move(message));
}

/// Collects words; white space from variables separates words, quoted white space does not.
class WordList {
 public:
    void add(std::string_view rune_bytes, char32_t rune) {
        if (!is_space(rune)) {
            add_protected(rune_bytes);
        } else if (in_word_ && !word_.empty()) {
            words_.push_back(std::move(word_));
            word_.clear();
            in_word_ = false;
        }
    }
    void add_text(std::string_view text) {
        for (size_t at = 0; at < text.size();) {
            size_t width = 0;
            const char32_t rune = decode_rune(text, at, width);
            add(text.substr(at, width), rune);
            at += width;
        }
    }
    void add_protected(std::string_view text) {
        word_ += text;
        in_word_ = true;
    }
    std::vector<std::string> take() {
        if (!word_.empty()) words_.push_back(std::move(word_));
        word_.clear();
        return std::move(words_);
    }

 private:
    std::string word_;
    std::vector<std::string> words_;
    bool in_word_ = false;
};

bool is_special_parameter(char32_t rune) {
    return rune < 0x80 &&
           std::string_view("@*#?-$!0").find(static_cast<char>(rune)) != std::string_view::npos;
}

class Lexer {
 public:
    Lexer(std::string_view text, const Variables& variables, const ExpandOptions& options)
        : text_(text), variables_(variables), options_(options) {}

    Expansion run() {
        std::vector<std::string> words;
        result_.text = until(kEnd, options_.keep_escapes, words);
        result_.words = std::move(words);
        return std::move(result_);
    }

 private:
    char32_t peek() const {
        size_t width = 0;
        return at_ < text_.size() ? decode_rune(text_, at_, width) : kEnd;
    }
    /// Take one code point; its bytes are left in last_.
    char32_t next() {
        last_ = {};
        if (at_ >= text_.size()) return kEnd;
        size_t width = 0;
        const char32_t rune = decode_rune(text_, at_, width);
        last_ = text_.substr(at_, width);
        at_ += width;
        return rune;
    }
    char32_t escape() const { return static_cast<unsigned char>(options_.escape); }

    std::string until(char32_t stop, bool keep_escapes, std::vector<std::string>& words) {
        const bool outer = std::exchange(keep_escapes_, keep_escapes);
        std::string result;
        WordList list;
        while (peek() != kEnd) {
            const char32_t rune = peek();
            if (rune == stop) {
                next();
                keep_escapes_ = outer;
                words = list.take();
                return result;
            }
            if (rune == '$') {
                const std::string value = dollar();
                result += value;
                list.add_text(value);
            } else if (!options_.quotes_are_text && (rune == '\'' || rune == '"')) {
                const std::string value = rune == '"' ? double_quoted() : single_quoted();
                result += value;
                list.add_protected(value);
            } else {
                plain(result, list);
            }
        }
        if (stop != kEnd)
            fail(fmt::format("unexpected end of statement while looking for the matching '{}'",
                             static_cast<char>(stop)));
        keep_escapes_ = outer;
        words = list.take();
        return result;
    }

    void plain(std::string& result, WordList& list) {
        const char32_t rune = next();
        if (rune != escape()) {
            list.add(last_, rune);
            result += last_;
            return;
        }
        if (keep_escapes_) {
            list.add_protected(last_);
            result += last_;
        }
        if (next() == kEnd) return;  // an escape at the very end is dropped
        list.add_protected(last_);
        result += last_;
    }

    std::string single_quoted() {
        std::string result;
        next();
        if (options_.keep_quotes) result += last_;
        while (true) {
            const char32_t rune = next();
            if (rune == kEnd)
                fail("unexpected end of statement while looking for the matching single quote");
            if (rune != '\'' || options_.keep_quotes) result += last_;
            if (rune == '\'') return result;
        }
    }

    std::string double_quoted() {
        std::string result;
        next();
        if (options_.keep_quotes) result += last_;
        while (true) {
            const char32_t rune = peek();
            if (rune == kEnd)
                fail("unexpected end of statement while looking for the matching double quote");
            if (rune == '$') {
                result += dollar();
                continue;
            }
            next();
            if (rune == '"') {
                if (options_.keep_quotes) result += last_;
                return result;
            }
            if (rune == escape()) {
                if (keep_escapes_) result += last_;
                const char32_t escaped = peek();
                if (escaped == kEnd) continue;
                if (escaped == '"' || escaped == '$' || escaped == escape()) next();
            }
            result += last_;
        }
    }

    std::string name() {
        const size_t begin = at_;
        if (is_digit(peek())) {
            while (is_digit(peek())) next();
        } else if (peek() != kEnd && is_special_parameter(peek())) {
            next();
        } else {
            while (peek() != kEnd && (is_letter(peek()) || is_digit(peek()) || peek() == '_'))
                next();
        }
        return std::string(text_.substr(begin, at_ - begin));
    }

    /// The variable's value, or nullptr; notes that it was asked for.
    const std::string* lookup(const std::string& variable) {
        const auto found = variables_.find(variable);
        const bool set = found != variables_.end();
        (set ? result_.used : result_.missing).insert(variable);
        return set ? &found->second : nullptr;
    }

    std::string dollar() {
        next();
        if (peek() != '{') {
            const std::string variable = name();
            if (variable.empty()) return "$";
            const std::string* value = lookup(variable);
            if (value == nullptr && options_.keep_unset) return "$" + variable;
            return value ? *value : "";
        }
        next();
        if (peek() == kEnd) fail("syntax error: missing '}'");
        if (peek() == '{' || peek() == '}' || peek() == ':') fail("syntax error: bad substitution");
        const std::string variable = name();
        const char32_t operation = next();
        const std::string spelled(last_);
        if (operation == '}') {
            const std::string* value = lookup(variable);
            if (value == nullptr && options_.keep_unset) return "${" + variable + "}";
            return value ? *value : "";
        }
        if (operation == '/') return replace(variable);
        if (operation == ':') {
            const char32_t second = next();
            if (second == '-' || second == '+' || second == '?')
                return conditional(variable, second, true);
            fail(fmt::format("unsupported modifier (:{}) in substitution", last_));
        }
        if (operation == '-' || operation == '+' || operation == '?')
            return conditional(variable, operation, false);
        if (operation == '#' || operation == '%') return trim_value(variable, operation);
        fail(fmt::format("unsupported modifier ({}) in substitution", spelled));
    }

    std::string until_brace(bool keep_escapes) {
        std::vector<std::string> words;
        return until('}', keep_escapes, words);
    }

    /// ${x-w} ${x+w} ${x?w} and, with a colon, the forms that take an empty value for an unset one.
    std::string conditional(const std::string& variable, char32_t operation, bool empty_is_unset) {
        const std::string word = until_brace(false);
        const std::string* value = lookup(variable);
        if (value == nullptr && options_.keep_unset)
            return fmt::format("${{{}{}{}{}}}", variable, empty_is_unset ? ":" : "",
                               static_cast<char>(operation), word);
        const bool unset = value == nullptr || (empty_is_unset && value->empty());
        if (operation == '-') return unset ? word : *value;
        if (operation == '+') return unset ? "" : word;
        if (unset) {
            const char* reason =
                value == nullptr ? "is not allowed to be unset" : "is not allowed to be empty";
            fail(fmt::format("{}: {}", variable, word.empty() ? reason : word));
        }
        return *value;
    }

    std::string trim_value(const std::string& variable, char32_t operation) {
        std::string word = until_brace(true);
        const std::string* value = lookup(variable);
        if (value == nullptr && options_.keep_unset)
            return fmt::format("${{{}{}{}}}", variable, static_cast<char>(operation), word);
        const bool greedy = !word.empty() && word[0] == static_cast<char>(operation);
        if (greedy) word.erase(0, 1);
        const ValuePattern pattern(word);
        const std::string text = value ? *value : "";
        return operation == '#' ? pattern.without_prefix(text, greedy)
                                : pattern.without_suffix(text, greedy);
    }

    std::string replace(const std::string& variable) {
        const bool all = peek() == '/';
        if (all) next();
        std::vector<std::string> words;
        const std::string pattern = until('/', true, words);
        const std::string replacement = until_brace(true);
        const std::string* value = lookup(variable);
        if (value == nullptr && options_.keep_unset)
            return fmt::format("${{{}/{}/{}}}", variable, pattern, replacement);
        return ValuePattern(pattern).replaced(value ? *value : "", replacement, all);
    }

    std::string_view text_;
    const Variables& variables_;
    const ExpandOptions& options_;
    size_t at_ = 0;
    std::string_view last_;
    bool keep_escapes_ = false;
    Expansion result_;
};

}  // namespace

Expansion expand(std::string_view text, const Variables& variables, const ExpandOptions& options) {
    try {
        return Lexer(text, variables, options).run();
    } catch (Error& error) {
        throw error.note(fmt::format("while expanding {}", slipway::quoted(text)));
    }
}

}  // namespace slipway::builder
