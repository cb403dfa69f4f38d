// Reads /proc/PID/stat.
// Must not: take a name for a proof: any process may call itself anything.
#include "slipway/base/process_facts.hpp"

#include <fcntl.h>

#include <cstdlib>
#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {

namespace {

constexpr size_t kMaxStatBytes = 4096;

}  // namespace

std::optional<ProcessFacts> parse_process_stat(const std::string& text) {
    // The name stands in parentheses, and may itself hold any character.
    const size_t open = text.find('('), close = text.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open)
        return std::nullopt;
    ProcessFacts process;
    process.name = text.substr(open + 1, close - open - 1);
    size_t at = close + 1;
    for (int number = 3; at < text.size() && number <= 39; ++number) {  // field 3 is the state
        at = text.find_first_not_of(" \n", at);
        if (at == std::string::npos) break;
        const size_t end = std::min(text.find_first_of(" \n", at), text.size());
        if (number == 3) process.state = text[at];
        if (number == 4) process.parent = std::atoi(text.c_str() + at);
        if (number == 22) process.start_time = text.substr(at, end - at);
        if (number == 39) process.processor = std::atoi(text.c_str() + at);
        at = end;
    }
    if (process.start_time.empty()) return std::nullopt;
    return process;
}

std::optional<ProcessFacts> read_process(int pid) {
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    try {
        const auto file = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY);
        if (!file) return std::nullopt;
        std::string text(kMaxStatBytes, '\0');
        text.resize(sys::read(file->get(), text.data(), text.size(), path));
        return parse_process_stat(text);
    } catch (const Error&) {  // gone between open and read (ESRCH), or hidden
        return std::nullopt;
    }
}

}  // namespace slipway
