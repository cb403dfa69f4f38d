// Random numbers that are the same on every machine: SplitMix64.
#pragma once

#include <cstdint>

namespace slipway::train {

/// A stream of numbers named by seed and purpose. (The standard library's distributions differ
/// between libraries, hence none of them.)
class Random {
 public:
    Random(uint64_t seed, uint64_t stream) : state_(seed * 0xd1342543de82ef95u + stream) {}

    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    /// In [0, 1).
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    /// In [0, limit), limit < 2³².
    uint64_t below(uint64_t limit) { return ((next() >> 32) * limit) >> 32; }

 private:
    uint64_t state_;
};

}  // namespace slipway::train
