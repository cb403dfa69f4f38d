// What one COPY or ADD takes: its sources found in a tree, and where each goes.
#pragma once

#include <string>
#include <vector>

#include "file_tree.hpp"
#include "plan.hpp"

namespace slipway::builder {

struct CopyItem {
    std::string source;    ///< path in the tree; "" with `inline_file`
    std::string target;    ///< below the destination: "" is the destination itself
    image::Entry entry;    ///< as found
    bool top = false;      ///< named by the instruction itself, not found below a directory
    bool is_name = false;  ///< a single file: the destination may be its new name
    const InlineFile* inline_file = nullptr;
};

/// Find everything that the action's sources name: wildcards, directories' contents, --exclude,
/// --parents. Sorted within each source, parents first.
/// Throws: Error(unsafe_path) for a source outside the context; Error(not_found) naming the source.
std::vector<CopyItem> collect_items(const FileTree& tree, const CopyAction& action,
                                    bool tree_is_context);

/// Digest over names, types, modes and contents: what a cached COPY depends on.
std::string items_digest(const FileTree& tree, const std::vector<CopyItem>& items);

}  // namespace slipway::builder
