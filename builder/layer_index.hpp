// What a layer holds, without its contents: read once from the blob, kept in the store's cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "slipway/image/entry.hpp"
#include "slipway/image/store.hpp"

namespace slipway::builder {

/// The entries of one layer in their order, whiteouts among them as in the tar.
struct LayerIndex {
    std::vector<image::Entry> entries;
};

/// The index of a stored layer; made from the blob if the cache has none.
LayerIndex read_layer_index(const image::Store& store, const image::Layer& layer);
/// Keep the index of a layer that was just written.
void save_layer_index(const image::Store& store, const image::Layer& layer,
                      const LayerIndex& index);

/// Passes a source on and notes every entry in an index.
class IndexingSource : public image::EntrySource {
 public:
    IndexingSource(image::EntrySource& source, LayerIndex& index)
        : source_(source), index_(index) {}
    bool next(image::Entry& entry) override;
    size_t read(void* data, size_t size_bytes) override { return source_.read(data, size_bytes); }

 private:
    image::EntrySource& source_;
    LayerIndex& index_;
};

}  // namespace slipway::builder
