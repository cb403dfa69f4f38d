// Packs by content key, kept in a directory so that a layer is compressed once.
#pragma once

#include <optional>
#include <string>

#include "pack.hpp"

namespace slipway::image::squashfs {

/// Finds a layer's pack in options.pack_directory or makes it there; without a directory or a key
/// the pack is an unnamed file beside the output, gone when it is closed.
class PackCache {
 public:
    PackCache(const std::string& output, const SquashfsOptions& options)
        : output_(output), options_(options) {}
    /// The layer's pack, from the directory if it is there; it counts as used now.
    std::optional<Pack> find(const LayerInput& layer) const;
    Pack make(const LayerInput& layer, size_t number, Progress* progress);
    UniqueFd unnamed_file() const;
    /// Remove the packs used least recently until the rest is within the limit. A pack that another
    /// process reads stays whole for it, and room is given back when it is done.
    void trim() const;
    uint64_t packed_bytes() const { return packed_bytes_; }

 private:
    bool keeps(const LayerInput& layer) const;
    std::string path_of(const LayerInput& layer) const;
    const std::string& output_;
    const SquashfsOptions& options_;
    uint64_t packed_bytes_ = 0;
};

}  // namespace slipway::image::squashfs
