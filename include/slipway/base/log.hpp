// Messages for people, on stderr only: error, warning, info, -v, -vv, each with the rank where
// there is one.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace slipway::log {

enum class Level { error, warning, info, verbose, debug };

/// Set the most talkative level that is printed (default info).
void set_level(Level level);
bool enabled(Level level);
/// Set what stands before each message after "slipway: ", for example "rank 3".
void set_tag(std::string tag);
/// Set the program's name in messages (default "slipway").
void set_program(std::string name);
const std::string& program();

/// Print one message; warnings are kept to be told again by repeat_warnings().
void write(Level level, std::string_view message);
/// Print the warnings again if anything was printed after them; called once at the end by the
/// command line.
void repeat_warnings();

template <typename... Args>
void warning(fmt::format_string<Args...> text, Args&&... args) {
    write(Level::warning, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
    if (enabled(Level::info)) write(Level::info, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void verbose(fmt::format_string<Args...> text, Args&&... args) {
    if (enabled(Level::verbose))
        write(Level::verbose, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
    if (enabled(Level::debug)) write(Level::debug, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace slipway::log
