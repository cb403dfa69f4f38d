// Shares a memfd among the ranks of a node and lets them meet on a futex.
// Must not: leave a name anywhere, wait for ever for a dead rank, or know what the memory holds.
#include "comm/node_memory.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <random>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_node.hpp"

namespace slipway::train {

namespace {

using namespace std::chrono_literals;
constexpr auto kHandOver = 30s;  // for a peer that is starting slowly
constexpr auto kPeerCheck = 500ms;
constexpr auto kStallNotice = 60s;
constexpr int kSpins = 2000;  // about 50 µs
constexpr int kYields = 20;

std::string random_name() {
    std::random_device device;
    std::string name = "slipway-train-";
    for (int i = 0; i < 4; ++i) name += fmt::format("{:08x}", device());
    return name;
}

void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

bool all_succeeded(Communicator& communicator, bool mine) {
    double failures = mine ? 0 : 1;
    communicator.sum({&failures, 1});
    return failures == 0;
}

// Run a step that may fail on this rank alone, then agree with the others.
template <typename Step>
bool agree(Communicator& communicator, const Step& step) {
    bool mine = true;
    try {
        step();
    } catch (const Error& error) {
        log::verbose("no shared memory: {}", error.message());
        mine = false;
    }
    return all_succeeded(communicator, mine);
}

void hand_out(int listener, int memory, int peers) {
    const auto deadline = std::chrono::steady_clock::now() + kHandOver;
    while (peers > 0) {
        UniqueFd peer = sys::accept(listener, deadline);
        if (sys::peer_uid(peer.get()) != ::geteuid()) continue;  // a stranger
        const std::byte greeting{1};
        const int fds[] = {memory};
        sys::send_message(peer.get(), {&greeting, 1}, fds);
        --peers;
    }
}

UniqueFd receive_memory(int socket) {
    std::array<std::byte, 1> greeting;
    std::vector<UniqueFd> fds;
    const size_t size = sys::receive_message(socket, greeting, fds);
    if (size != 1 || fds.size() != 1)
        throw Error(ErrorKind::launcher, "rank 0 has not handed over the shared memory");
    return std::move(fds.front());
}

}  // namespace

std::optional<NodeMemory> NodeMemory::share(Communicator& communicator, size_t size_bytes) {
    const World& world = communicator.world();
    const size_t total = kHeaderBytes + size_bytes;
    UniqueFd memory, socket;
    std::string name = random_name();
    const bool listening = agree(communicator, [&] {
        if (world.rank != 0) return;
        memory = sys::memfd_create("slipway-train");
        sys::ftruncate(memory.get(), static_cast<off_t>(total), "shared memory");
        socket = sys::listen_abstract(name, world.size);
    });
    if (!listening) return std::nullopt;
    communicator.broadcast(name.data(), name.size(), 0);
    const bool connected = agree(communicator, [&] {
        if (world.rank != 0) socket = sys::connect_abstract(name);
    });
    if (!connected) return std::nullopt;
    std::optional<NodeMemory> shared;
    const bool mapped = agree(communicator, [&] {
        if (world.rank == 0) {
            hand_out(socket.get(), memory.get(), world.size - 1);
        } else {
            memory = receive_memory(socket.get());
        }
        shared.emplace(NodeMemory(std::move(memory), total, world.rank, world.size));
    });
    if (!mapped) return std::nullopt;
    return shared;
}

NodeMemory::NodeMemory(UniqueFd memory, size_t size_bytes, int rank, int size)
    : memory_(std::move(memory)), mapped_bytes_(size_bytes), rank_(rank), size_(size) {
    base_ = static_cast<std::byte*>(sys::map_shared(memory_.get(), size_bytes, "shared memory"));
    // A rank that ends, however it ends, loses its lock.
    if (!sys::lock_byte(memory_.get(), rank))
        throw Error(ErrorKind::launcher, fmt::format("there are two ranks {}", rank));
    // With more ranks than CPUs the one we wait for may be waiting for our CPU.
    spins_ = size <= ::sysconf(_SC_NPROCESSORS_ONLN) ? kSpins : 0;
}

NodeMemory::NodeMemory(NodeMemory&& other) noexcept
    : memory_(std::move(other.memory_)),
      mapped_bytes_(other.mapped_bytes_),
      base_(std::exchange(other.base_, nullptr)),
      rank_(other.rank_),
      size_(other.size_),
      spins_(other.spins_) {}

NodeMemory::~NodeMemory() {
    if (base_ != nullptr) ::munmap(base_, mapped_bytes_);
}

void NodeMemory::meet() {
    Header& h = header();
    const uint32_t generation = h.generation.load();
    if (h.arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
        h.arrived.store(0);
        h.generation.store(generation + 1);
        if (h.sleepers.load() > 0) sys::futex_wake_all(h.generation);
        return;
    }
    for (int i = 0; i < spins_; ++i) {
        if (h.generation.load() != generation) return;
        pause_cpu();
    }
    for (int i = 0; i < kYields; ++i) {
        if (h.generation.load() != generation) return;
        ::sched_yield();
    }
    sleep_until_after(generation);
}

void NodeMemory::sleep_until_after(uint32_t generation) {
    Header& h = header();
    const auto start = std::chrono::steady_clock::now();
    auto notice = start + kStallNotice;
    h.sleepers.fetch_add(1);
    while (h.generation.load() == generation) {
        if (sys::futex_wait(h.generation, generation, kPeerCheck)) continue;
        if (h.generation.load() != generation) break;
        check_peers();
        const auto now = std::chrono::steady_clock::now();
        if (now < notice) continue;
        log::warning("waiting for the other ranks for {} s; all of them are alive",
                     std::chrono::duration_cast<std::chrono::seconds>(now - start).count());
        notice = now + kStallNotice;
    }
    h.sleepers.fetch_sub(1);
}

void NodeMemory::check_peers() const {
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_ || sys::byte_is_locked(memory_.get(), peer)) continue;
        throw Error(ErrorKind::launcher, fmt::format("rank {} has died", peer))
            .note("the other ranks cannot go on without it")
            .hint(
                "look for its message above; with --checkpoint and --resume the job continues "
                "from its last epoch");
    }
}

}  // namespace slipway::train
