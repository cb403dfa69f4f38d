// Anonymous memory shared by the ranks of a node, with a meeting point that notices dead peers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "slipway/base/fd.hpp"
#include "slipway/train/communicator.hpp"

namespace slipway::train {

/// A memfd mapped by every rank. It has no name in any file system: whatever kills the ranks,
/// nothing stays behind. It is handed over a socket in the abstract name space, so that it reaches
/// ranks in other user, mount and process namespaces.
class NodeMemory {
 public:
    /// Share `size_bytes`; collective over `communicator`, whose ranks must all be on this node.
    /// Returns std::nullopt on all ranks when it failed on any.
    static std::optional<NodeMemory> share(Communicator& communicator, size_t size_bytes);
    NodeMemory(NodeMemory&& other) noexcept;
    NodeMemory& operator=(NodeMemory&&) = delete;
    ~NodeMemory();

    std::byte* data() const { return base_ + kHeaderBytes; }

    /// Return when all ranks have come here: spins shortly, then sleeps.
    /// Throws: Error(launcher) naming a rank that has died meanwhile.
    void meet();

 private:
    static constexpr size_t kHeaderBytes = 4096;
    struct Header {
        alignas(64) std::atomic<uint32_t> arrived;
        alignas(64) std::atomic<uint32_t> generation;
        alignas(64) std::atomic<uint32_t> sleepers;
    };
    NodeMemory(UniqueFd memory, size_t size_bytes, int rank, int size);
    Header& header() const { return *reinterpret_cast<Header*>(base_); }
    void sleep_until_after(uint32_t generation);
    void check_peers() const;

    UniqueFd memory_;
    size_t mapped_bytes_ = 0;
    std::byte* base_ = nullptr;
    int rank_ = 0;
    int size_ = 1;
    int spins_ = 0;
};

}  // namespace slipway::train
