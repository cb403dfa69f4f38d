// The lock by which processes that add to a store keep others from deleting. Private to the room.
#pragma once

#include <mutex>
#include <optional>

#include "slipway/base/file.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Shared by the copies of one Store.
struct Store::Use {
    std::mutex mutex;
    std::optional<FileLock> lock;
};

}  // namespace slipway::image
