// Chooses the transport: none, a plugin, and within one node shared memory on top.
// Must not: fall back in silence; ranks that train alone would overwrite each other's results.
#include <fmt/core.h>

#include "comm/launcher.hpp"
#include "comm/plugin.hpp"
#include "comm/shared_memory.hpp"
#include "comm/single.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"

namespace slipway::train {

namespace {

std::string declared(const LauncherFacts& facts) {
    return facts.size > 1 ? fmt::format("{} ranks", facts.size) : "several ranks";
}

std::unique_ptr<Communicator> stand_alone(const LauncherFacts& facts, bool asked) {
    if (asked && facts.several())
        log::warning("{} has started {}, but --transport single makes each train alone", facts.name,
                     declared(facts));
    return make_single();
}

// Initialised by itself, an MPI that cannot reach the launcher makes every rank the only one.
void guard_against_singletons(const LauncherFacts& facts, const World& world) {
    if (facts.size <= 1 || world.size == facts.size) return;
    throw Error(ErrorKind::launcher,
                fmt::format("{} has started {}, but transport {} sees {}", facts.name,
                            declared(facts), world.transport, world.size))
        .note("told by: " + facts.proof)
        .note("every rank would train alone and overwrite the others' results")
        .hint(facts.plugin == world.transport
                  ? "check that launcher and transport speak the same PMI (srun --mpi=list), and "
                    "that its variables and descriptors reach the program"
                  : "leave out --transport and SLIPWAY_TRANSPORT, or launch with the mpiexec of "
                    "that MPI");
}

std::unique_ptr<Communicator> join(const std::string& plugin, const LauncherFacts& facts) {
    try {
        auto communicator = load_plugin(plugin);
        guard_against_singletons(facts, communicator->world());
        return communicator;
    } catch (Error& error) {
        if (facts.several())
            error.note(fmt::format("{} has started {} (told by {})", facts.name, declared(facts),
                                   facts.proof));
        throw;
    }
}

}  // namespace

std::unique_ptr<Communicator> connect(const ConnectOptions& options) {
    const LauncherFacts facts = detect_launcher(process_environment());
    if (options.transport == "single") return stand_alone(facts, true);
    std::string plugin = options.transport == "auto" ? facts.plugin : options.transport;
    if (plugin.empty() && facts.several())
        throw Error(ErrorKind::launcher,
                    fmt::format("{} has started {}, and no transport can reach them", facts.name,
                                declared(facts)))
            .note("told by: " + facts.proof)
            .hint(facts.remedy + ", or --transport single to train each alone");
    if (plugin.empty()) return stand_alone(facts, false);

    auto communicator = join(plugin, facts);
    const World& world = communicator->world();
    if (world.size > 1) log::set_tag(fmt::format("rank {}", world.rank));
    log::verbose("joined {} as rank {} of {} through {}", facts.name, world.rank, world.size,
                 world.transport);
    if (!options.shared_memory || world.size == 1 || world.local_size != world.size)
        return communicator;
    return with_shared_memory(std::move(communicator));
}

}  // namespace slipway::train
