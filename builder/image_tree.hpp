// The merged view of a stack of layers: which layer a path comes from, its owner, type and links.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "file_tree.hpp"
#include "layer_index.hpp"

namespace slipway::builder {

/// Layers applied one after another, whiteouts and opaque directories honoured, from their indexes:
/// nothing is read from disk but contents that are asked for.
class ImageTree : public FileTree {
 public:
    explicit ImageTree(const image::Store& store) : store_(store) {}
    void apply(const image::Layer& layer, const LayerIndex& index);
    void apply(const image::Layer& layer) { apply(layer, read_layer_index(store_, layer)); }

    std::optional<image::Entry> find(const std::string& path) const override;
    std::vector<std::string> names(const std::string& directory) const override;
    UniqueFd open(const std::string& path) const override;
    std::string digest(const std::string& path) const override;
    /// A whole small file, links followed; "" if it is not there.
    std::string read(const std::string& path) const;
    /// The host's path of a file's contents, in an unpacked layer.
    std::string host_path(const std::string& path) const;

    const std::vector<image::Layer>& layers() const { return layers_; }

 private:
    struct Node {
        image::Entry entry;
        size_t layer = 0;
        std::string stored_as;  ///< the path of the contents in that layer
    };
    void remove_below(const std::string& directory, size_t newest_layer);
    void remove(const std::string& path, size_t newest_layer);

    const image::Store& store_;
    std::vector<image::Layer> layers_;
    std::map<std::string, Node> nodes_;
};

}  // namespace slipway::builder
