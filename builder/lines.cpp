// The first step of reading a Dockerfile: bytes -> logical lines, heredoc bodies.
// Must not: know what an instruction means.
#include "lines.hpp"

#include <fmt/format.h>

#include "expand.hpp"
#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

constexpr size_t kLongestLineBytes = 65535;

[[noreturn]] void fail(const std::string& subject, int line, std::string_view what) {
    throw Error(ErrorKind::invalid_recipe, fmt::format("{}, line {}: {}", subject, line, what));
}

bool is_comment(std::string_view line) {
    const std::string_view text = trim_left(line);
    return !text.empty() && text[0] == '#';
}

/// `# name = value`, or two empty strings.
std::pair<std::string, std::string> split_directive(std::string_view line) {
    if (line.empty() || line[0] != '#') return {};
    line = trim(line.substr(1));
    size_t end = 0;
    while (end < line.size() && line[end] < 0x7F && line[end] > 0 &&
           (is_letter(static_cast<unsigned char>(line[end])) ||
            (end > 0 && is_digit(static_cast<unsigned char>(line[end])))))
        ++end;
    const std::string_view rest = trim_left(line.substr(end));
    if (end == 0 || rest.empty() || rest[0] != '=') return {};
    const std::string_view value = trim(rest.substr(1));
    if (value.empty()) return {};
    return {to_lower(line.substr(0, end)), std::string(value)};
}

}  // namespace

std::optional<Heredoc> parse_heredoc_word(std::string_view word) {
    Heredoc heredoc;
    size_t at = 0;
    while (at < word.size() && is_digit(static_cast<unsigned char>(word[at])))
        heredoc.descriptor = heredoc.descriptor * 10 + static_cast<unsigned>(word[at++] - '0');
    if (word.substr(at, 2) != "<<") return std::nullopt;
    at += 2;
    if (at < word.size() && word[at] == '-') {
        heredoc.strip_tabs = true;
        ++at;
    }
    const std::string_view name = trim_left(word.substr(at));
    if (name.empty() || name.find('<') != std::string_view::npos) return std::nullopt;

    // The name read with and without its quotes: a difference means that a part of it was quoted.
    ExpandOptions options;
    options.keep_unset = true;
    const auto bare = expand(name, {}, options).words;
    options.keep_quotes = options.keep_escapes = true;
    const auto spelled = expand(name, {}, options).words;
    if (bare.size() != 1 || spelled.size() != 1) return std::nullopt;
    heredoc.name = bare[0];
    heredoc.expand = bare[0] == spelled[0];
    return heredoc;
}

std::vector<Heredoc> heredocs_of_line(std::string_view line) {
    ExpandOptions options;
    options.keep_quotes = options.keep_escapes = options.keep_unset = true;
    std::vector<std::string> words;
    try {
        words = expand(line, {}, options).words;
    } catch (const Error&) {
        return {};  // an open quote is for the shell to complain about
    }
    std::vector<Heredoc> heredocs;
    for (const std::string& word : words)
        if (auto heredoc = parse_heredoc_word(word)) heredocs.push_back(std::move(*heredoc));
    return heredocs;
}

std::string without_leading_tabs(std::string_view content) {
    std::string result;
    bool at_line_start = true;
    for (const char c : content) {
        if (at_line_start && c == '\t') continue;
        at_line_start = c == '\n';
        result += c;
    }
    return result;
}

LineReader::LineReader(std::string_view bytes, std::string subject)
    : bytes_(bytes), subject_(std::move(subject)) {
    if (starts_with(bytes_, "\xEF\xBB\xBF")) at_ = 3;
}

bool LineReader::next_physical(std::string_view& line) {
    if (at_ >= bytes_.size()) return false;
    ++line_number_;
    const size_t newline = bytes_.find('\n', at_);
    const size_t end = newline == std::string_view::npos ? bytes_.size() : newline + 1;
    line = bytes_.substr(at_, end - at_);
    at_ = end;
    size_t length = line.size();
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) --length;
    line_end_ = line.substr(length);
    line = line.substr(0, length);
    if (line.size() > kLongestLineBytes)
        fail(subject_, line_number_,
             fmt::format("the line is longer than {} bytes", kLongestLineBytes));
    return true;
}

void LineReader::read_directive(std::string_view line) {
    if (directives_done_) return;
    const auto [name, value] = split_directive(line);
    if (name != "syntax" && name != "escape" && name != "check") {
        directives_done_ = true;
        return;
    }
    if (!directives_.emplace(name, value).second)
        fail(subject_, line_number_,
             fmt::format("the directive {} is given twice", slipway::quoted(name)));
    if (name == "escape") {
        if (value != "\\" && value != "`")
            fail(subject_, line_number_,
                 fmt::format("the escape character must be \\ or `, not {}",
                             slipway::quoted(value)));
        escape_ = value[0];
    }
}

bool LineReader::take_continuation(std::string& line) const {
    size_t end = line.size();
    while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\t')) --end;
    if (end == 0 || line[end - 1] != escape_) return false;
    if (end > 1 && line[end - 2] == escape_) return false;  // an escaped escape character
    line.resize(end - 1);
    return true;
}

std::optional<LogicalLine> LineReader::next() {
    std::string_view physical;
    while (next_physical(physical)) {
        physical = trim_left(physical);
        read_directive(physical);
        if (physical.empty() || physical[0] == '#') continue;

        LogicalLine result;
        result.place.first_line = line_number_;
        result.text = physical;
        bool more = take_continuation(result.text);
        bool empty_line = false;
        while (more && next_physical(physical)) {
            if (is_comment(physical)) continue;
            if (trim_left(physical).empty()) {
                empty_line = true;
                continue;
            }
            std::string piece(physical);
            more = take_continuation(piece);
            result.text += piece;
        }
        result.place.last_line = line_number_;
        if (empty_line)
            warnings_.push_back(fmt::format("{}, line {}: an empty line inside a continued line",
                                            subject_, result.place.first_line));
        return result;
    }
    return std::nullopt;
}

void LineReader::read_heredoc(Heredoc& heredoc, int first_line) {
    std::string_view physical;
    while (next_physical(physical)) {
        std::string_view candidate = physical;
        while (heredoc.strip_tabs && !candidate.empty() && candidate[0] == '\t')
            candidate.remove_prefix(1);
        if (candidate == heredoc.name) return;
        heredoc.content += physical;
        heredoc.content += line_end_;
    }
    fail(subject_, first_line,
         fmt::format("the heredoc {} has no end: no line holds only that word",
                     slipway::quoted(heredoc.name)));
}

}  // namespace slipway::builder
