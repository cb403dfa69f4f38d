// A tree of files that COPY can take from: the build context, or the merged layers of an image.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/fd.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::builder {

/// Paths are clean and relative to the root, which is "".
class FileTree {
 public:
    virtual ~FileTree() = default;
    /// What is at a path, links not followed; std::nullopt if nothing is there.
    virtual std::optional<image::Entry> find(const std::string& path) const = 0;
    /// The names in a directory, sorted bytewise.
    virtual std::vector<std::string> names(const std::string& directory) const = 0;
    /// Open a regular file for reading.
    virtual UniqueFd open(const std::string& path) const = 0;
    /// Digest of a regular file's contents.
    virtual std::string digest(const std::string& path) const = 0;
    /// Whether a directory belongs to the tree only for what is below it.
    virtual bool only_for_contents(const std::string&) const { return false; }
};

using Lookup = std::function<std::optional<image::Entry>(const std::string& path)>;

/// Follow every link on the way to `path`, and the last one too if `follow_last`, as if the tree's
/// root were "/". What is not there is taken as it is written. Throws: Error(unsafe_path) for a
/// circle of links.
std::string resolve_links(const Lookup& find, const std::string& path, bool follow_last);

/// Join member paths: "" is the root.
std::string member_join(const std::string& directory, const std::string& name);
std::string member_parent(const std::string& path);

}  // namespace slipway::builder
