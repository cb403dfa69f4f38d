// Writes entries on top of an image: paths resolved through the image's links, parents described.
#pragma once

#include <map>
#include <string>

#include "image_tree.hpp"
#include "users.hpp"

namespace slipway::builder {

/// One layer being written. A directory of the image that holds something new is described again
/// with its own metadata, so that the layer says nothing else about it.
class TreeWriter {
 public:
    /// `made` gives owner and time to directories that have to be made on the way.
    struct Made {
        Owner owner;
        int64_t mtime = 0;
    };
    TreeWriter(image::LayerWriter& writer, const ImageTree& below, LayerIndex& index, Made made);

    /// The path that `path` means in the image; with `follow_last` through a link at its end.
    std::string resolve(const std::string& path, bool follow_last) const;
    /// What is there now: written here, else in the image.
    std::optional<image::Entry> find(const std::string& path) const;

    /// Make a directory and its parents if they are not there. `path` is resolved already.
    void ensure_directory(const std::string& path);
    /// Write an entry at a path whose parents are resolved here; returns the path written.
    /// For a file the caller writes its bytes to the writer next.
    /// Throws: Error(conflict) when a directory would replace a file, or a file a directory.
    std::string add(const std::string& path, image::Entry entry, bool follow_last = false);

 private:
    void emit(const image::Entry& entry);

    image::LayerWriter& writer_;
    const ImageTree& below_;
    LayerIndex& index_;
    Made made_;
    std::map<std::string, image::Entry> written_;
};

}  // namespace slipway::builder
