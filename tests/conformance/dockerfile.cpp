// Runs BuildKit's Dockerfile corpus, a row or a folder a case: parser dumps, variables, words.
// Must not: copy the corpus, or pass when it was found and holds nothing.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "expand.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "syntax.hpp"
#include "text.hpp"

namespace fs = std::filesystem;
using namespace slipway;
using namespace slipway::builder;

namespace {

struct Tally {
    int cases = 0;
    int failures = 0;
    void check(const std::string& name, const std::string& expected, const std::string& got) {
        ++cases;
        if (expected == got) return;
        ++failures;
        fmt::print("FAIL {}\n  expected: {}\n  got:      {}\n", name, expected, got);
    }
};

void run_parser_cases(const fs::path& folder, Tally& tally) {
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string expected = read_file((entry.path() / "result").string());
        std::string got;
        try {
            got =
                dump(parse_syntax(read_file((entry.path() / "Dockerfile").string()), "Dockerfile"));
        } catch (const Error& error) {
            got = fmt::format("error: {}", error.message());
        }
        tally.check("parser/" + entry.path().filename().string(), std::string(trim(expected)),
                    std::string(trim(got)));
    }
}

void run_variable_cases(const fs::path& file, Tally& tally) {
    const Variables variables = {
        {"PWD", "/home"}, {"SHELL", "bash"}, {"KOREAN", "한국어"}, {"NULL", ""}};
    int number = 0;
    for (const std::string& line : split(read_file(file.string()), '\n')) {
        ++number;
        if (line.empty() || line[0] == '#' || trim(line).empty()) continue;
        const auto columns = split(line, '|');
        if (columns.size() != 3 || trim(columns[0]) == "W") continue;
        std::string got;
        try {
            got = expand(trim(columns[1]), variables).text;
        } catch (const Error&) {
            got = "error";
        }
        tally.check(fmt::format("envVarTest, line {}", number), std::string(trim(columns[2])), got);
    }
}

void run_word_cases(const fs::path& file, Tally& tally) {
    Variables variables;
    int number = 0;
    for (const std::string& line : split(read_file(file.string()), '\n')) {
        ++number;
        if (line.empty() || line[0] == '#') continue;
        if (starts_with(line, "ENV ")) {
            const size_t equals = line.find('=');
            variables[std::string(trim(line.substr(4, equals - 4)))] = line.substr(equals + 1);
            continue;
        }
        const auto columns = split(line, '|');
        if (columns.size() != 2) continue;
        std::string got;
        try {
            got = join(expand(trim(columns[0]), variables).words, ",");
        } catch (const Error&) {
            got = "error";
        }
        tally.check(fmt::format("wordsTest, line {}", number),
                    columns[1].substr(columns[1].find_first_not_of(' ')), got);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const char* from_environment = std::getenv("SLIPWAY_CONFORMANCE");
    const fs::path root = from_environment ? from_environment : argc > 1 ? argv[1] : "";
    const fs::path corpus = root / "dockerfile";
    if (!fs::exists(corpus)) {
        fmt::print("left out: no corpus at \"{}\" (set SLIPWAY_CONFORMANCE)\n", corpus.string());
        return 77;
    }
    Tally parser, variables, words;
    run_parser_cases(corpus / "parser/testfiles", parser);
    run_variable_cases(corpus / "shell/envVarTest", variables);
    run_word_cases(corpus / "shell/wordsTest", words);
    for (const auto& [name, tally] :
         {std::pair{"parser", parser}, std::pair{"envVarTest", variables},
          std::pair{"wordsTest", words}})
        fmt::print("{}: {} cases, {} failed\n", name, tally.cases, tally.failures);
    const bool empty = parser.cases == 0 || variables.cases == 0 || words.cases == 0;
    return empty || parser.failures + variables.failures + words.failures > 0 ? 1 : 0;
}
