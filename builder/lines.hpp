// The first step of reading a Dockerfile: bytes -> logical lines, with their places; heredocs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipway::builder {

/// Lines of the file, counted from 1, both ends included.
struct Place {
    int first_line = 0;
    int last_line = 0;
};

/// `<<NAME`, `<<-NAME`, `<<"NAME"`: a file in the Dockerfile.
struct Heredoc {
    std::string name;
    std::string content;
    bool expand = true;       ///< no part of the name was quoted
    bool strip_tabs = false;  ///< `<<-`
    unsigned descriptor = 0;
};

/// Understand one word as a heredoc's beginning; std::nullopt if it is none.
std::optional<Heredoc> parse_heredoc_word(std::string_view word);
/// Every heredoc that a line begins, in order.
std::vector<Heredoc> heredocs_of_line(std::string_view line);
/// The content without the tabs at the beginning of its lines.
std::string without_leading_tabs(std::string_view content);

struct LogicalLine {
    std::string text;  ///< continuation lines joined, comments left out
    Place place;
};

/// Reads logical lines one after another, and heredoc bodies between them.
/// Throws: Error(invalid_recipe) with the line for a repeated directive, a wrong escape directive,
/// a line that is too long.  Source: moby/buildkit frontend/dockerfile/parser.
class LineReader {
 public:
    /// `bytes` must outlive the reader; `subject` is the file's name in errors.
    LineReader(std::string_view bytes, std::string subject);
    std::optional<LogicalLine> next();
    /// Read a body up to its terminator. Throws: Error(invalid_recipe) if there is none.
    void read_heredoc(Heredoc& heredoc, int first_line);

    char escape() const { return escape_; }
    int line_number() const { return line_number_; }
    const std::map<std::string, std::string>& directives() const { return directives_; }
    const std::vector<std::string>& warnings() const { return warnings_; }

 private:
    bool next_physical(std::string_view& line);  ///< without its line end
    void read_directive(std::string_view line);
    bool take_continuation(std::string& line) const;  ///< true: the next line belongs to this one

    std::string_view bytes_;
    std::string subject_;
    size_t at_ = 0;
    std::string_view line_end_;  ///< of the physical line read last
    int line_number_ = 0;
    char escape_ = '\\';
    bool directives_done_ = false;
    std::map<std::string, std::string> directives_;
    std::vector<std::string> warnings_;
};

}  // namespace slipway::builder
