// Questions about what lies in an image that is not mounted.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "slipway/image/convert.hpp"

namespace slipway::image {

/// Looks into a runnable image. Links are followed inside it.
class ImageInside {
 public:
    /// Throws: SysError, Error(invalid_image).
    explicit ImageInside(const RunnableImage& image);
    ~ImageInside();
    ImageInside(const ImageInside&) = delete;
    ImageInside& operator=(const ImageInside&) = delete;

    bool exists(const std::string& path) const;
    /// A whole small file; std::nullopt if it is not there or no regular file.
    std::optional<std::string> read_file(const std::string& path) const;
    /// Whether Slipway put the file there for other tools: what it says is said better by the
    /// image's configuration.
    bool is_added(const std::string& path) const;

 private:
    std::string directory_;  ///< the image's, or "/"; "" for a squashfs
    std::shared_ptr<const SquashfsImage> squashfs_;
};

}  // namespace slipway::image
