// The merged view of a stack of layers.
// Must not: change a layer.
#include "image_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/own_file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "text.hpp"

namespace slipway::builder {

void ImageTree::remove_below(const std::string& directory, size_t newest_layer) {
    const std::string prefix = directory.empty() ? "" : directory + "/";
    for (auto it = nodes_.lower_bound(prefix);
         it != nodes_.end() && starts_with(it->first, prefix);) {
        const bool older = it->second.layer <= newest_layer && !it->first.empty();
        it = older ? nodes_.erase(it) : std::next(it);
    }
}

void ImageTree::remove(const std::string& path, size_t newest_layer) {
    remove_below(path, newest_layer);
    const auto it = nodes_.find(path);
    if (it != nodes_.end() && it->second.layer <= newest_layer) nodes_.erase(it);
}

void ImageTree::apply(const image::Layer& layer, const LayerIndex& index) {
    const size_t number = layers_.size() + 1;
    layers_.push_back(layer);
    // Whiteouts take away what older layers brought, wherever they stand in the tar.
    for (const image::Entry& entry : index.entries) {
        const image::Whiteout whiteout = image::classify_whiteout(entry.path);
        if (whiteout.kind == image::Whiteout::Kind::remove) remove(whiteout.path, number - 1);
        if (whiteout.kind == image::Whiteout::Kind::opaque) remove_below(whiteout.path, number - 1);
    }
    for (const image::Entry& entry : index.entries) {
        if (image::classify_whiteout(entry.path).kind != image::Whiteout::Kind::none) continue;
        Node node{entry, number, entry.path};
        if (entry.type == image::EntryType::hardlink) {
            const auto target = nodes_.find(entry.link_target);
            if (target != nodes_.end()) {
                node = target->second;
                node.entry.path = entry.path;
            }
        }
        if (node.entry.type != image::EntryType::directory) remove_below(entry.path, number);
        nodes_[entry.path] = std::move(node);
    }
}

std::optional<image::Entry> ImageTree::find(const std::string& path) const {
    const auto found = nodes_.find(path);
    if (found != nodes_.end()) return found->second.entry;
    // A directory that no entry describes is there if something lies below it.
    const std::string prefix = path + "/";
    const auto below = nodes_.lower_bound(prefix);
    const bool implied =
        path.empty() || (below != nodes_.end() && starts_with(below->first, prefix));
    if (!implied) return std::nullopt;
    image::Entry entry;
    entry.type = image::EntryType::directory;
    entry.path = path;
    entry.mode = 0755;
    return entry;
}

std::vector<std::string> ImageTree::names(const std::string& directory) const {
    std::vector<std::string> result;
    const std::string prefix = directory.empty() ? "" : directory + "/";
    for (auto it = nodes_.lower_bound(prefix);
         it != nodes_.end() && starts_with(it->first, prefix);) {
        const std::string name =
            it->first.substr(prefix.size(), it->first.find('/', prefix.size()) - prefix.size());
        if (name.empty()) {
            ++it;
            continue;
        }
        if (result.empty() || result.back() != name) result.push_back(name);
        // Jump over everything below this name: "0" is the character after "/".
        it = it->first.size() == prefix.size() + name.size()
                 ? std::next(it)
                 : nodes_.lower_bound(prefix + name + "0");
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

std::string ImageTree::host_path(const std::string& path) const {
    const auto found = nodes_.find(path);
    if (found == nodes_.end())
        throw Error(ErrorKind::not_found,
                    fmt::format("{} is not in the image", slipway::quoted("/" + path)));
    const Node& node = found->second;
    return join_path(store_.unpacked_layer(layers_[node.layer - 1]), node.stored_as);
}

UniqueFd ImageTree::open(const std::string& path) const {
    return open_own_file(AT_FDCWD, host_path(path));
}

std::string ImageTree::digest(const std::string& path) const {
    const UniqueFd file = open(path);
    return sha256_file(file.get(), path).hex();
}

std::string ImageTree::read(const std::string& path) const {
    const std::string resolved =
        resolve_links([this](const std::string& p) { return find(p); }, path, true);
    const auto entry = find(resolved);
    if (!entry || entry->type != image::EntryType::file) return {};
    return read_all(open(resolved).get(), resolved);
}

}  // namespace slipway::builder
