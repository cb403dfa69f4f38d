// Replay of layer journals on an in-memory tree.
// Must not: read file data, or let a path lead outside the root.
#include "tree.hpp"

#include <fmt/format.h>

#include <deque>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr size_t kLongestName = 255;
constexpr uint32_t kDeepest = 4096;
constexpr int kMostLinks = 40;  // as the kernel

Error broken(const std::string& text) { return Error(ErrorKind::invalid_archive, text); }

void push_front(std::deque<std::string>& todo, std::string_view path) {
    std::vector<std::string> parts;
    while (!path.empty()) {
        const size_t slash = path.find('/');
        parts.emplace_back(path.substr(0, slash));
        path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
    }
    todo.insert(todo.begin(), parts.begin(), parts.end());
}

std::string parent_text(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string name_text(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

Inode directory_inode(int64_t mtime) {
    Inode inode;
    inode.entry.type = EntryType::directory;
    inode.entry.mode = 0755;
    inode.entry.mtime = mtime;
    return inode;
}

}  // namespace

/// What must be known of a layer before its whiteouts are applied.
struct Tree::LayerFacts {
    std::map<std::string, InodeId> older_targets;  ///< of its hard links, in the older layers
};

Tree::Tree() {
    inodes_.push_back(directory_inode(0));
    nodes_.emplace_back();
}

void Tree::apply_layer(std::vector<JournalEntry>&& journal, uint32_t pack) {
    LayerFacts facts;
    for (const JournalEntry& record : journal) {
        if (record.entry.type != EntryType::hardlink) continue;
        // A layer may link to an older file that it removes or replaces.
        if (const auto target = find(record.entry.link_target))
            facts.older_targets[record.entry.link_target] = nodes_[*target].inode;
    }
    apply_whiteouts(journal);
    for (JournalEntry& record : journal) {
        if (classify_whiteout(record.entry.path).kind == Whiteout::Kind::none)
            apply_entry(std::move(record), pack, facts);
    }
    journal.clear();
    last_directory_.reset();
}

void Tree::apply_whiteouts(const std::vector<JournalEntry>& journal) {
    std::vector<Whiteout> whiteouts;
    std::set<std::string> directories;
    for (const JournalEntry& record : journal) {
        const Whiteout whiteout = classify_whiteout(record.entry.path);
        if (whiteout.kind != Whiteout::Kind::none)
            whiteouts.push_back(whiteout);
        else if (record.entry.type == EntryType::directory)
            directories.insert(record.entry.path);
    }
    last_directory_.reset();
    for (const Whiteout& whiteout : whiteouts) {
        if (whiteout.kind == Whiteout::Kind::opaque && whiteout.path.empty()) {
            nodes_[root()].children.clear();
            continue;
        }
        // A parent that this layer makes a directory hides an older symlink of that name: what
        // the link leads to is none of this whiteout's business.
        const auto parent = walk(parent_text(whiteout.path), std::nullopt, &directories);
        if (!parent) continue;
        const std::string name = name_text(whiteout.path);
        if (whiteout.kind == Whiteout::Kind::remove) {
            nodes_[*parent].children.erase(name);
        } else if (const auto directory = child(*parent, name)) {
            if (is_directory(*directory)) nodes_[*directory].children.clear();
        }
    }
}

void Tree::apply_entry(JournalEntry&& record, uint32_t pack, const LayerFacts& facts) {
    const std::string path = std::move(record.entry.path);
    record.entry.path.clear();
    if (path.empty()) {
        if (record.entry.type != EntryType::directory)
            throw broken("the layer makes the root something other than a directory");
        inodes_[nodes_[root()].inode].entry = std::move(record.entry);
        return;
    }
    if (record.entry.type == EntryType::hardlink) {
        const auto target = link_target(record.entry.link_target, facts);
        if (!target)
            throw broken(fmt::format("hard link {} to {}, which is not there",
                                     slipway::quoted(path),
                                     slipway::quoted(record.entry.link_target)))
                .hint("build the image again: its layer refers to a file of no layer");
        if (inodes_[*target].entry.type == EntryType::directory)
            throw broken(fmt::format("hard link {} to the directory {}", slipway::quoted(path),
                                     slipway::quoted(record.entry.link_target)));
        const NodeId directory = parent_of(path, record.entry.mtime);
        const auto old = child(directory, name_text(path));
        if (!old || nodes_[*old].inode != *target) put(directory, name_text(path), *target);
        return;
    }
    const NodeId directory = parent_of(path, record.entry.mtime);
    const std::string name = name_text(path);
    const auto old = child(directory, name);
    if (old && record.entry.type == EntryType::directory && is_directory(*old)) {
        inodes_[nodes_[*old].inode].entry = std::move(record.entry);
        return;
    }
    inodes_.push_back(Inode{std::move(record.entry), record.data, pack});
    put(directory, name, static_cast<InodeId>(inodes_.size() - 1));
}

std::optional<InodeId> Tree::link_target(const std::string& path, const LayerFacts& facts) {
    if (const auto node = find(path)) return nodes_[*node].inode;
    const auto older = facts.older_targets.find(path);
    if (older == facts.older_targets.end()) return std::nullopt;
    return older->second;
}

std::optional<NodeId> Tree::find(std::string_view path) {
    if (path.empty()) return root();
    const std::string text(path);
    const auto directory = walk(parent_text(text), std::nullopt);
    return directory ? child(*directory, name_text(text)) : std::nullopt;
}

std::optional<NodeId> Tree::walk(std::string_view path, std::optional<int64_t> implied_mtime,
                                 const std::set<std::string>* replaced) {
    std::deque<std::string> todo;
    push_front(todo, path);
    NodeId current = root();
    int links = 0;
    std::string walked;  // the path as written, while no link was followed
    while (!todo.empty()) {
        const std::string name = std::move(todo.front());
        todo.pop_front();
        if (name.empty() || name == ".") continue;
        if (name == "..") {
            current = nodes_[current].parent;
            continue;
        }
        if (links == 0) walked = walked.empty() ? name : walked + "/" + name;
        const auto next = child(current, name);
        if (next && inode_of(*next).entry.type == EntryType::symlink) {
            if (replaced != nullptr && links == 0 && replaced->contains(walked)) return {};
            if (++links > kMostLinks)
                throw broken(fmt::format("too many symbolic links in {}", slipway::quoted(path)));
            const std::string& target = inode_of(*next).entry.link_target;
            if (!target.empty() && target.front() == '/') current = root();
            push_front(todo, target);
        } else if (next && is_directory(*next)) {
            current = *next;
        } else if (implied_mtime) {
            current = put_directory(current, name, *implied_mtime);
        } else {
            return std::nullopt;
        }
    }
    return current;
}

NodeId Tree::parent_of(const std::string& path, int64_t mtime) {
    std::string parent = parent_text(path);
    if (last_directory_ && parent == last_parent_) return *last_directory_;
    const NodeId directory = *walk(parent, mtime);
    last_parent_ = std::move(parent);
    last_directory_ = directory;
    return directory;
}

std::optional<NodeId> Tree::child(NodeId directory, const std::string& name) const {
    const auto& children = nodes_[directory].children;
    const auto found = children.find(name);
    return found == children.end() ? std::nullopt : std::optional(found->second);
}

NodeId Tree::put(NodeId directory, const std::string& name, InodeId inode) {
    if (name.size() > kLongestName)
        throw broken(
            fmt::format("the name {} has {} bytes; no Linux file system holds more than {}",
                        slipway::quoted(name), name.size(), kLongestName));
    const uint32_t depth = nodes_[directory].depth + 1;
    if (depth > kDeepest)
        throw broken(
            fmt::format("{} is nested more than {} levels deep", slipway::quoted(name), kDeepest));
    const auto id = static_cast<NodeId>(nodes_.size());
    nodes_.push_back(Node{directory, inode, depth, {}});
    const auto [place, fresh] = nodes_[directory].children.insert_or_assign(name, id);
    if (!fresh) last_directory_.reset();  // what was replaced may have been on the way to it
    return id;
}

NodeId Tree::put_directory(NodeId directory, const std::string& name, int64_t mtime) {
    inodes_.push_back(directory_inode(mtime));
    return put(directory, name, static_cast<InodeId>(inodes_.size() - 1));
}

bool Tree::is_directory(NodeId id) const { return inode_of(id).entry.type == EntryType::directory; }

}  // namespace slipway::image::squashfs
