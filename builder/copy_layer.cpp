// Makes the layer of a COPY, an ADD or a WORKDIR.
// Must not: run anything, or find sources (copy_items does).
#include "copy_layer.hpp"

#include <fmt/format.h>

#include <vector>

#include "archive.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"
#include "tree_writer.hpp"
#include "users.hpp"

namespace slipway::builder {

namespace {

using image::Entry;
using image::EntryType;

constexpr auto kCompression = image::LayerCompression::zstd;

class CopyWriter {
 public:
    CopyWriter(image::LayerWriter& layer, TreeWriter& tree, const FileTree& source,
               const CopyAction& action, std::optional<Owner> owner)
        : layer_(layer), tree_(tree), source_(source), action_(action), owner_(owner) {}

    void write(const std::vector<CopyItem>& items, const LayerTimes& times) {
        std::string destination = action_.destination.substr(1);
        const bool slash = !destination.empty() && destination.back() == '/';
        if (slash) destination.pop_back();
        destination = tree_.resolve(destination, true);
        const auto existing = tree_.find(destination);
        size_t tops = 0;
        for (const CopyItem& item : items) tops += item.top ? 1 : 0;
        into_ = slash || tops > 1 || (existing && existing->type == EntryType::directory);

        std::map<std::string, size_t> last;  // of several items at one place the last one stays
        for (size_t i = 0; i < items.size(); ++i) last[place(items[i], destination)] = i;
        for (size_t i = 0; i < items.size(); ++i)
            if (last.at(place(items[i], destination)) == i)
                write_item(items[i], place(items[i], destination), destination, times);
    }

 private:
    std::string place(const CopyItem& item, const std::string& destination) const {
        return item.is_name && !into_ ? destination : member_join(destination, item.target);
    }

    void write_item(const CopyItem& item, const std::string& place, const std::string& destination,
                    const LayerTimes& times) {
        Entry entry = item.entry;
        if (item.inline_file != nullptr) entry.mtime = times.now;
        if (owner_) std::tie(entry.uid, entry.gid) = std::pair(owner_->uid, owner_->gid);
        const bool directory = entry.type == EntryType::directory;
        if (item.top && directory) {
            const auto existing = tree_.find(tree_.resolve(place, true));
            if (existing && existing->type == EntryType::directory) return;  // keeps its metadata
            if (item.source.empty()) entry.mode = 0755;  // the root of the context has no own mode
        }
        if (entry.type != EntryType::symlink)
            entry.mode = apply_chmod(action_.chmod, entry.mode, directory);
        if (item.inline_file != nullptr) {
            tree_.add(place, entry, true);
            layer_.write(item.inline_file->content.data(), item.inline_file->content.size());
        } else if (entry.type == EntryType::file || entry.type == EntryType::hardlink) {
            write_file(item, entry, place, destination);
        } else {
            tree_.add(place, entry);
        }
    }

    void write_file(const CopyItem& item, Entry entry, const std::string& place,
                    const std::string& destination) {
        const UniqueFd file = source_.open(item.source);
        if (action_.unpack && item.is_name) {
            if (auto archive = open_archive(file.get(), item.source)) {
                unpack(*archive, destination);
                return;
            }
        }
        entry.type = EntryType::file;
        entry.size_bytes = static_cast<uint64_t>(sys::fstat(file.get(), item.source).st_size);
        tree_.add(place, entry, item.is_name);
        std::vector<char> buffer(256 << 10);
        for (uint64_t at = 0; at < entry.size_bytes;) {
            const size_t want = std::min<uint64_t>(buffer.size(), entry.size_bytes - at);
            const size_t got = sys::pread(file.get(), buffer.data(), want, at, item.source);
            if (got == 0)
                throw Error(ErrorKind::io, fmt::format("{} became shorter while it was copied",
                                                       slipway::quoted(item.source)));
            layer_.write(buffer.data(), got);
            at += got;
        }
    }

    /// ADD of an archive: its members below the destination, with their own owners unless --chown.
    void unpack(image::EntrySource& archive, const std::string& destination) {
        tree_.ensure_directory(destination);
        std::map<std::string, std::string> places;  // member -> where it went, for hard links
        std::vector<char> buffer(256 << 10);
        Entry entry;
        while (archive.next(entry)) {
            if (entry.path.empty() || entry.type == EntryType::socket) continue;
            if (owner_) std::tie(entry.uid, entry.gid) = std::pair(owner_->uid, owner_->gid);
            const std::string member = entry.path;
            if (entry.type == EntryType::hardlink) {
                const auto target = places.find(entry.link_target);
                if (target == places.end())
                    throw Error(
                        ErrorKind::invalid_archive,
                        fmt::format("{} is a hard link to {}, which the archive has not",
                                    slipway::quoted(member), slipway::quoted(entry.link_target)));
                entry.link_target = target->second;
            }
            places[member] = tree_.add(member_join(destination, member), entry);
            if (entry.type != EntryType::file) continue;
            while (const size_t got = archive.read(buffer.data(), buffer.size()))
                layer_.write(buffer.data(), got);
        }
    }

    image::LayerWriter& layer_;
    TreeWriter& tree_;
    const FileTree& source_;
    const CopyAction& action_;
    std::optional<Owner> owner_;
    bool into_ = false;
};

}  // namespace

std::optional<image::Layer> write_copy_layer(image::Store& store, const ImageTree& below,
                                             const FileTree& source, const CopyAction& action,
                                             const LayerTimes& times) {
    const bool from_context = !action.from_step;
    const auto items = collect_items(source, action, from_context);
    if (items.empty()) return std::nullopt;
    std::optional<Owner> owner;
    if (from_context || !action.chown.empty()) owner = parse_chown(below, action.chown);
    const int64_t made = items[0].inline_file != nullptr ? times.now : items[0].entry.mtime;
    LayerIndex index;
    const image::Layer layer = store.add_layer([&](int fd) {
        image::LayerWriter writer(fd, kCompression, times.clamp);
        TreeWriter tree(writer, below, index, {owner.value_or(Owner{}), made});
        CopyWriter(writer, tree, source, action, owner).write(items, times);
        return writer.finish();
    });
    if (index.entries.empty()) return std::nullopt;
    save_layer_index(store, layer, index);
    return layer;
}

std::optional<image::Layer> write_directory_layer(image::Store& store, const ImageTree& below,
                                                  const std::string& directory,
                                                  const std::string& user,
                                                  const LayerTimes& times) {
    const auto find = [&below](const std::string& path) { return below.find(path); };
    const std::string path = resolve_links(find, directory, true);
    const auto existing = below.find(path);
    if (existing && existing->type == EntryType::directory) return std::nullopt;
    const Owner owner = find_account(below, user).owner;
    LayerIndex index;
    const image::Layer layer = store.add_layer([&](int fd) {
        image::LayerWriter writer(fd, kCompression, times.clamp);
        TreeWriter(writer, below, index, {owner, times.now}).ensure_directory(path);
        return writer.finish();
    });
    save_layer_index(store, layer, index);
    return layer;
}

}  // namespace slipway::builder
