// Words ch-run's --help and --usage from the table of its options.
// Must not: hold a list of options of its own.
#include <fmt/core.h>

#include "ch_run_options.hpp"

namespace slipway::cli {
namespace {

using Shown = ChOptionRow::Shown;
using Takes = ChOptionRow::Takes;

constexpr size_t kHelpColumn = 27;
constexpr size_t kWidth = 79;
constexpr const char* kSynopsis = "ch-run [OPTION...] IMAGE -- [COMMAND [ARG...]]";

std::string long_form(const ChOptionRow& row) {
    switch (row.takes) {
        case Takes::nothing:
            return fmt::format("--{}", row.name);
        case Takes::value:
            return fmt::format("--{}={}", row.name, row.value);
        case Takes::optional_value:
            return fmt::format("--{}[={}]", row.name, row.value);
    }
    return {};
}

/// All of --usage's brackets, in argp's order: bare letters, letters with values, long names.
std::vector<std::string> usage_items() {
    std::string bare;
    std::vector<std::string> letters, names;
    for (const auto& row : ch_options()) {
        if (row.shown != Shown::always) continue;
        names.push_back("[" + long_form(row) + "]");
        if (row.letter == 0) continue;
        if (row.takes == Takes::nothing) bare += row.letter;
        if (row.takes == Takes::value)
            letters.push_back(fmt::format("[-{} {}]", row.letter, row.value));
        if (row.takes == Takes::optional_value)
            letters.push_back(fmt::format("[-{}[{}]]", row.letter, row.value));
    }
    std::vector<std::string> items{"[-" + bare + "]"};
    items.insert(items.end(), letters.begin(), letters.end());
    items.insert(items.end(), names.begin(), names.end());
    items.insert(items.end(), {"IMAGE", "--", "[COMMAND", "[ARG...]]"});
    return items;
}

}  // namespace

std::string ch_help() {
    std::string text = fmt::format(
        "Usage: {}\n\n"
        "Run a command in an image, as Charliecloud's program of this name does.\n\n",
        kSynopsis);
    for (const auto& row : ch_options()) {
        if (row.shown != Shown::always) continue;
        std::string line =
            row.letter == 0 ? std::string(6, ' ') : fmt::format("  -{}, ", row.letter);
        line += long_form(row);
        line.resize(std::max(line.size() + 1, kHelpColumn), ' ');
        text += line + row.help + "\n";
    }
    return text +
           "\nIMAGE is a directory, a squashfs file, the name of a stored image, or / (the host).\n"
           "Without COMMAND, or with - in its place: the image's own.\n";
}

std::string ch_usage() {
    std::string text, line = "Usage: ch-run";
    for (const auto& item : usage_items()) {
        if (line.size() + 1 + item.size() > kWidth) {
            text += line + "\n";
            line = std::string(11, ' ');
        }
        line += " " + item;
    }
    return text + line + "\n";
}

}  // namespace slipway::cli
