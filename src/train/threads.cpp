// Counts the CPUs a rank may use and sets thread numbers and malloc's thresholds.
// Must not: bind threads; launchers do that.
#include "threads.hpp"

#include <malloc.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "slipway/base/file.hpp"

namespace slipway::train {

namespace {

// About a millisecond of work.
constexpr int64_t kMultiplyAddsPerThread = 40'000'000;

// What identifies the node and the CPUs of a rank.
struct Placement {
    char node[72];
    cpu_set_t cpus;
};

Placement own_placement() {
    Placement placement{};
    std::string id;
    try {
        id = read_file("/proc/sys/kernel/random/boot_id");
    } catch (const std::exception&) {
        id = "unknown";  // one node is the cautious guess: fewer threads
    }
    std::strncpy(placement.node, id.c_str(), sizeof placement.node - 1);
    if (sched_getaffinity(0, sizeof placement.cpus, &placement.cpus) != 0) {
        // More CPUs than a cpu_set_t holds: take them all.
        for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency() && cpu < CPU_SETSIZE;
             ++cpu)
            CPU_SET(cpu, &placement.cpus);
    }
    return placement;
}

}  // namespace

int choose_threads(int requested, int64_t step_multiply_adds, Communicator& communicator) {
    const Placement mine = own_placement();
    std::vector<Placement> all(static_cast<size_t>(communicator.world().size));
    communicator.all_gather(&mine, sizeof mine, all.data());
    if (requested > 0) return requested;
    int sharers = 0;
    for (const Placement& other : all) {
        cpu_set_t common;
        CPU_AND(&common, &mine.cpus, &other.cpus);
        if (std::strcmp(mine.node, other.node) == 0 && CPU_COUNT(&common) > 0) ++sharers;
    }
    const int share = CPU_COUNT(&mine.cpus) / std::max(1, sharers);
    const int64_t worth = step_multiply_adds / kMultiplyAddsPerThread;
    return static_cast<int>(std::clamp<int64_t>(worth, 1, std::max(1, share)));
}

void apply_threads(int threads) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    // Without these, every step's large temporaries would be mapped and unmapped anew.
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace slipway::train
