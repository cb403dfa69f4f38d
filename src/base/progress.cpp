// Progress lines on stderr.
// Must not: print anything for work that ends within a second.
#include "slipway/base/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "slipway/base/log.hpp"

namespace slipway {
namespace {

constexpr int64_t kFirstPrintMs = 1000;
constexpr int64_t kTerminalEveryMs = 200;
constexpr int64_t kPlainEveryMs = 5000;
constexpr int kBarCells = 24;

std::string amount(uint64_t value, Progress::Unit unit) {
    return unit == Progress::Unit::bytes ? human_bytes(value) : fmt::format("{}", value);
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
    if (bytes < 1000) return fmt::format("{} B", bytes);
    auto value = static_cast<double>(bytes);
    const char* unit = "";
    for (const char* next : {"kB", "MB", "GB", "TB"}) {
        value /= 1000;
        unit = next;
        if (value < 999.95) break;
    }
    return fmt::format("{:.1f} {}", value, unit);
}

Progress::Progress(std::string label, uint64_t total, Unit unit)
    : label_(std::move(label)),
      unit_(unit),
      total_(total),
      start_(std::chrono::steady_clock::now()),
      next_print_ms_(kFirstPrintMs),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
    if (terminal_ && printed_ && !finished_) (void)!::write(STDERR_FILENO, "\n", 1);
}

void Progress::set_total(uint64_t total) { total_ = total; }

void Progress::add(uint64_t more) {
    done_ += more;
    const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::steady_clock::now() - start_)
                             .count();
    int64_t due = next_print_ms_;
    if (elapsed < due) return;
    if (next_print_ms_.compare_exchange_strong(
            due, elapsed + (terminal_ ? kTerminalEveryMs : kPlainEveryMs)))
        print(false);
}

void Progress::finish() {
    if (finished_) return;
    finished_ = true;
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    if (printed_ || elapsed > std::chrono::milliseconds(kFirstPrintMs)) print(true);
}

void Progress::print(bool last) {
    if (!log::enabled(log::Level::info)) return;
    printed_ = true;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const uint64_t done = done_;
    const uint64_t total = total_;
    const double rate = static_cast<double>(done) / seconds;
    const std::string rate_text = amount(static_cast<uint64_t>(rate), unit_) + "/s";
    std::string text;
    if (last) {
        text =
            fmt::format("{}: {}, {} in {:.1f} s", label_, amount(done, unit_), rate_text, seconds);
    } else if (total > 0) {
        const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
        const double left =
            rate > 0 ? static_cast<double>(total - std::min(total, done)) / rate : 0;
        std::string bar;
        if (terminal_) {
            const int cells = static_cast<int>(part * kBarCells);
            bar = " [" + std::string(cells, '#') + std::string(kBarCells - cells, '.') + "]";
        }
        text = fmt::format("{}:{} {:.0f} %, {} of {}, {}, {:.0f} s left", label_, bar, part * 100,
                           amount(done, unit_), amount(total, unit_), rate_text, left);
    } else {
        text = fmt::format("{}: {}, {}", label_, amount(done, unit_), rate_text);
    }
    if (!terminal_) {
        log::write(log::Level::info, text);
        return;
    }
    const std::string line =
        fmt::format("\r\x1b[K{}: {}{}", log::program(), text, last ? "\n" : "");
    (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace slipway
