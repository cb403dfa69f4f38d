// Progress of long work: a bar on a terminal, plain lines elsewhere, nothing for what takes less
// than a second.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace slipway {

/// One piece of long work. add() may be called from any thread; lines are printed to stderr at most
/// once a second.
class Progress {
 public:
    enum class Unit { bytes, items };
    /// `total` 0 means unknown.
    Progress(std::string label, uint64_t total, Unit unit);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void add(uint64_t amount);
    void set_total(uint64_t total);
    /// Print the closing line, with amount, rate and time (only if the work took more than a
    /// second).
    void finish();

 private:
    void print(bool last);
    std::string label_;
    Unit unit_;
    std::atomic<uint64_t> total_;
    std::atomic<uint64_t> done_{0};
    std::chrono::steady_clock::time_point start_;
    std::atomic<int64_t> next_print_ms_;
    bool terminal_;
    bool printed_ = false;
    bool finished_ = false;
};

/// "12.3 MB", "1.9 GB": powers of ten, as disks and networks count.
std::string human_bytes(uint64_t bytes);

}  // namespace slipway
