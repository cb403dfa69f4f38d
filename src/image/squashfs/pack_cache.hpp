// Packs by content key, kept in a directory so that a layer is compressed once.
#pragma once

#include <string>

#include "pack.hpp"

namespace slipway::image::squashfs {

/// Finds a layer's pack in options.pack_directory or makes it there; without a directory or a key
/// the pack is an unnamed file beside the output, gone when it is closed.
class PackCache {
 public:
    PackCache(const std::string& output, const SquashfsOptions& options)
        : output_(output), options_(options) {}
    Pack get_or_pack(const LayerInput& layer, size_t number, Progress* progress);
    UniqueFd unnamed_file() const;

 private:
    std::string file_name(const std::string& key) const;
    const std::string& output_;
    const SquashfsOptions& options_;
};

}  // namespace slipway::image::squashfs
