// The command lines by which nearly all containers start, read without a parser's start-up.
#pragma once

#include <optional>
#include <span>

#include "slipway/runtime/run.hpp"

namespace slipway::cli {

/// Read "[-v|-q...] run [OPTIONS] IMAGE [--] [COMMAND...]", the words after the program's name, and
/// set how much is said. nullopt: something is unusual (help, a mistake, `-bSRC`), and the full
/// parser shall look at it. What is read here, it reads the same way. Throws: Error(usage).
std::optional<runtime::RunOptions> read_plain_run(std::span<char* const> words);

}  // namespace slipway::cli
