// Writes entries on top of an image.
// Must not: choose what is written.
#include "tree_writer.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"

namespace slipway::builder {

using image::Entry;
using image::EntryType;

TreeWriter::TreeWriter(image::LayerWriter& writer, const ImageTree& below, LayerIndex& index,
                       Made made)
    : writer_(writer), below_(below), index_(index), made_(made) {}

std::optional<Entry> TreeWriter::find(const std::string& path) const {
    const auto written = written_.find(path);
    if (written != written_.end()) return written->second;
    return below_.find(path);
}

std::string TreeWriter::resolve(const std::string& path, bool follow_last) const {
    return resolve_links([this](const std::string& p) { return find(p); }, path, follow_last);
}

void TreeWriter::emit(const Entry& entry) {
    writer_.add(entry);
    index_.entries.push_back(entry);
    written_[entry.path] = entry;
}

void TreeWriter::ensure_directory(const std::string& path) {
    if (path.empty() || written_.count(path) != 0) return;
    ensure_directory(member_parent(path));
    const auto existing = find(path);
    if (existing && existing->type != EntryType::directory)
        throw Error(ErrorKind::conflict,
                    fmt::format("{} is a file in the image; a directory is needed there",
                                slipway::quoted("/" + path)));
    Entry entry;
    entry.type = EntryType::directory;
    entry.mode = 0755;
    entry.uid = made_.owner.uid;
    entry.gid = made_.owner.gid;
    entry.mtime = made_.mtime;
    if (existing) entry = *existing;
    entry.path = path;
    emit(entry);
}

std::string TreeWriter::add(const std::string& path, Entry entry, bool follow_last) {
    std::string place = resolve(path, follow_last);
    auto existing = find(place);
    const bool directory = entry.type == EntryType::directory;
    if (directory && existing && existing->type == EntryType::symlink) {
        place = resolve(place, true);  // a link to a directory stays, its target is filled
        existing = find(place);
    }
    if (existing && directory != (existing->type == EntryType::directory))
        throw Error(ErrorKind::conflict,
                    fmt::format("{} is a {} in the image and a {} in the source",
                                slipway::quoted("/" + place), directory ? "file" : "directory",
                                directory ? "directory" : "file"));
    ensure_directory(member_parent(place));
    entry.path = place;
    emit(entry);
    return place;
}

}  // namespace slipway::builder
