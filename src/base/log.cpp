// Messages on stderr, each written with one write(2) so that ranks do not cut each other's lines.
// Must not: decide what is an error; stdout belongs to the user's program.
#include "slipway/base/log.hpp"

#include <unistd.h>

#include <mutex>
#include <vector>

namespace slipway::log {
namespace {

struct State {
    std::mutex mutex;
    Level level = Level::info;
    std::string program = "slipway";
    std::string tag;
    std::vector<std::string> warnings;
    bool printed_since_warning = false;
};
State& state() {
    static State instance;
    return instance;
}

std::string_view prefix(Level level) {
    switch (level) {
        case Level::error:
            return "error: ";
        case Level::warning:
            return "warning: ";
        case Level::debug:
            return "debug: ";
        default:
            return "";
    }
}

void put(const std::string& line) {
    size_t done = 0;
    while (done < line.size()) {
        const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
        if (n <= 0) return;  // nobody to tell
        done += static_cast<size_t>(n);
    }
}

}  // namespace

void set_level(Level level) { state().level = level; }
bool enabled(Level level) { return level <= state().level; }
void set_tag(std::string tag) { state().tag = std::move(tag); }
void set_program(std::string name) { state().program = std::move(name); }
const std::string& program() { return state().program; }

void write(Level level, std::string_view message) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    std::string line = s.program + ": ";
    if (!s.tag.empty()) line += s.tag + ": ";
    line += prefix(level);
    line += message;
    if (line.empty() || line.back() != '\n') line += '\n';
    if (level == Level::warning) {
        s.warnings.push_back(line);
        s.printed_since_warning = false;
    } else {
        s.printed_since_warning = true;
    }
    if (enabled(level)) put(line);
}

void repeat_warnings() {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.printed_since_warning && enabled(Level::warning))
        for (const auto& line : s.warnings) put(line);
    s.warnings.clear();
}

}  // namespace slipway::log
