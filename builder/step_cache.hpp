// The build cache: what a step with a given key gave.
#pragma once

#include <optional>
#include <string>

#include "slipway/image/store.hpp"

namespace slipway::builder {

struct StepResult {
    std::optional<image::Layer> layer;  ///< absent: the step changed nothing
    std::string created;                ///< RFC 3339
};

/// Files in the store's cache/, one JSON a step; the digests in them keep the blobs alive.
class StepCache {
 public:
    explicit StepCache(const image::Store& store);
    /// The step's result, if it is known and its layer is still stored.
    std::optional<StepResult> find(const std::string& key) const;
    void save(const std::string& key, const std::string& text, const StepResult& result) const;

 private:
    std::string path_of(const std::string& key) const;
    const image::Store& store_;
    std::string directory_;
};

}  // namespace slipway::builder
