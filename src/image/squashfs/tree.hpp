// The merged tree of an image: journals replayed base first, in memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pack.hpp"

namespace slipway::image::squashfs {

using NodeId = uint32_t;
using InodeId = uint32_t;

/// What hard links share.
struct Inode {
    Entry entry;  ///< path and link_target of a hard link are not kept
    FileData data;
    uint32_t pack = 0;  ///< which layer's pack holds the data
};

/// A name in a directory.
struct Node {
    NodeId parent = 0;
    InodeId inode = 0;
    uint32_t depth = 0;
    std::map<std::string, NodeId> children;  ///< bytewise, as squashfs wants them
};

/// A file tree to which layers are applied as the OCI image specification says: whiteouts first
/// and to older layers only, then entries in order. Parents that are symlinks are followed inside
/// the root; missing parents and parents that are no directories become directories (0755, root).
class Tree {
 public:
    Tree();
    /// Throws: Error(invalid_archive) for what no tree can hold (a hard link to nothing or to a
    /// directory, a loop of symlinks above an entry, a name over 255 bytes, 4,096 levels).
    void apply_layer(std::vector<JournalEntry>&& journal, uint32_t pack);

    NodeId root() const { return 0; }
    const Node& node(NodeId id) const { return nodes_[id]; }
    const Inode& inode(InodeId id) const { return inodes_[id]; }
    const Inode& inode_of(NodeId id) const { return inodes_[nodes_[id].inode]; }
    size_t inode_count() const { return inodes_.size(); }  ///< those of removed files too
    /// The node at a path, no link followed at its end; std::nullopt if there is none.
    std::optional<NodeId> find(std::string_view path);

 private:
    struct LayerFacts;
    void apply_whiteouts(const std::vector<JournalEntry>& journal);
    void apply_entry(JournalEntry&& record, uint32_t pack, const LayerFacts& facts);
    std::optional<InodeId> link_target(const std::string& path, const LayerFacts& facts);
    /// Follow a path to a directory; `implied_mtime` set: make what is missing.
    std::optional<NodeId> walk(std::string_view path, std::optional<int64_t> implied_mtime,
                               const std::set<std::string>* replaced = nullptr);
    NodeId parent_of(const std::string& path, int64_t mtime);
    std::optional<NodeId> child(NodeId directory, const std::string& name) const;
    NodeId put(NodeId directory, const std::string& name, InodeId inode);
    NodeId put_directory(NodeId directory, const std::string& name, int64_t mtime);
    bool is_directory(NodeId id) const;

    std::vector<Node> nodes_;
    std::vector<Inode> inodes_;
    std::string last_parent_;  ///< a path and its directory, valid until names change meaning
    std::optional<NodeId> last_directory_;
};

}  // namespace slipway::image::squashfs
