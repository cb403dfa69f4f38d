#include "lines.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::builder;

namespace {
std::vector<LogicalLine> all_lines(const std::string& text) {
    LineReader reader(text, "Dockerfile");
    std::vector<LogicalLine> lines;
    while (auto line = reader.next()) lines.push_back(*line);
    return lines;
}
}  // namespace

TEST_CASE("continuations keep their white space, comments inside vanish", "[lines]") {
    const auto lines = all_lines("\xEF\xBB\xBF  RUN a \\\n# no\n\n   b\\\\\nRUN c \\ \t\n\td\n");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].text == "RUN a    b\\\\");
    CHECK(lines[0].place.first_line == 1);
    CHECK(lines[0].place.last_line == 4);
    CHECK(lines[1].text == "RUN c \td");
}

TEST_CASE("an empty line inside a continued line is a warning", "[lines]") {
    const std::string text = "RUN a \\\n\n b\n";
    LineReader reader(text, "Dockerfile");
    CHECK(reader.next()->text == "RUN a  b");
    REQUIRE(reader.warnings().size() == 1);
    CHECK_THAT(reader.warnings()[0], ContainsSubstring("line 1"));
}

TEST_CASE("directives end with the first other line", "[lines]") {
    const std::string text = "# syntax = docker/dockerfile:1\n#Escape=`\nFROM a`\nb\n";
    LineReader reader(text, "Dockerfile");
    CHECK(reader.next()->text == "FROM ab");
    CHECK(reader.directives().at("syntax") == "docker/dockerfile:1");
    CHECK(all_lines("# hello\n# escape=`\nFROM a`\n")[0].text == "FROM a`");
    CHECK(all_lines("# other=1\n# escape=`\nFROM a`\n")[0].text == "FROM a`");
    CHECK_THROWS_WITH(all_lines("#escape=\\\n#escape=`\nFROM a\n"), ContainsSubstring("line 2"));
    CHECK_THROWS_AS(all_lines("#escape=x\nFROM a\n"), Error);
}

TEST_CASE("a line may not be longer than 65535 bytes", "[lines]") {
    CHECK(all_lines("RUN " + std::string(65531, 'a')).size() == 1);
    CHECK_THROWS_WITH(all_lines("FROM a\nRUN " + std::string(65532, 'a')),
                      ContainsSubstring("line 2"));
}

TEST_CASE("heredoc words", "[lines]") {
    CHECK(parse_heredoc_word("<<EOF")->expand);
    CHECK(parse_heredoc_word("<<EOF")->name == "EOF");
    CHECK_FALSE(parse_heredoc_word("<<'EOF'")->expand);
    CHECK(parse_heredoc_word("<<\"E\"OF")->name == "EOF");
    CHECK(parse_heredoc_word("<<-EOF")->strip_tabs);
    CHECK(parse_heredoc_word("3<<EOF")->descriptor == 3);
    CHECK_FALSE(parse_heredoc_word("<<<EOF").has_value());
    CHECK_FALSE(parse_heredoc_word("a<<EOF").has_value());
    CHECK_FALSE(parse_heredoc_word("<<").has_value());
    CHECK(heredocs_of_line("RUN cat <<A - 3<<-'B' \"<<C\"").size() == 2);
    CHECK(without_leading_tabs("\ta\n\t\tb\n c\t\n") == "a\nb\n c\t\n");
}
