// The lock by which processes that add to a store keep others from deleting. Private to the room.
#pragma once

#include <chrono>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../temp_file.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Shared by the copies of one Store.
struct Store::Use {
    explicit Use(std::string store) : directory(std::move(store)), began(std::time(nullptr)) {}
    /// Lets go, and then keeps the store within its limit, if it has one.
    ~Use();
    std::string directory;
    int64_t began;  ///< what was used since is not deleted when we let go
    std::mutex mutex;
    std::optional<FileLock> lock;
    std::optional<std::string> layers;    ///< where they are unpacked, once that is known
    std::optional<StagedTree> elsewhere;  ///< that place, if it is not in the store
};

/// Ends the name of the note beside an unpacked layer (unpacked.cpp).
inline constexpr std::string_view kBootNote = ".boot";

/// How long the index may be locked by somebody else.
inline constexpr auto kIndexTimeout = std::chrono::seconds(30);

/// The lock under which names and blobs come together: locks/index.
FileLock lock_index(const Store& store);
/// Delete those of these blobs that nothing names. What stays, because another process adds to the
/// store or for any other reason, the next collection finds.
void delete_unnamed(const Store& store, const std::vector<Digest>& blobs);
/// Whether an error says that the caller may not write here.
bool is_read_only(const Error& error);
/// The same error, in terms of the store.
Error read_only_store(const std::string& directory, const Error& error);

}  // namespace slipway::image
