// What a layer holds, without its contents.
// Must not: unpack anything.
#include "layer_index.hpp"

#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::builder {

namespace {

constexpr int kFormat = 1;  // part of the file's name: an older format is not read

std::string index_path(const image::Store& store, const image::Layer& layer) {
    return join_path(store.subdirectory("cache/index"),
                     layer.diff_id.hex() + ".v" + std::to_string(kFormat));
}

Json to_row(const image::Entry& entry) {
    Json row = {static_cast<int>(entry.type),
                entry.path,
                entry.mode,
                entry.uid,
                entry.gid,
                entry.mtime,
                entry.size_bytes,
                entry.link_target};
    if (!entry.xattrs.empty()) {
        Json xattrs = Json::object();
        for (const auto& [name, value] : entry.xattrs)
            xattrs[name] = Json::binary({value.begin(), value.end()});
        row.push_back(std::move(xattrs));
    }
    return row;
}

image::Entry from_row(const Json& row) {
    image::Entry entry;
    entry.type = static_cast<image::EntryType>(row.at(0).get<int>());
    entry.path = row.at(1).get<std::string>();
    entry.mode = row.at(2).get<uint32_t>();
    entry.uid = row.at(3).get<uint32_t>();
    entry.gid = row.at(4).get<uint32_t>();
    entry.mtime = row.at(5).get<int64_t>();
    entry.size_bytes = row.at(6).get<uint64_t>();
    entry.link_target = row.at(7).get<std::string>();
    if (row.size() > 8)
        for (const auto& [name, value] : row.at(8).items())
            entry.xattrs[name] = std::string(value.get_binary().begin(), value.get_binary().end());
    return entry;
}

}  // namespace

bool IndexingSource::next(image::Entry& entry) {
    if (!source_.next(entry)) return false;
    index_.entries.push_back(entry);
    return true;
}

void save_layer_index(const image::Store& store, const image::Layer& layer,
                      const LayerIndex& index) {
    Json rows = Json::array();
    for (const image::Entry& entry : index.entries) rows.push_back(to_row(entry));
    const std::vector<uint8_t> bytes = Json::to_cbor(rows);
    write_file_atomic(index_path(store, layer),
                      {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

LayerIndex read_layer_index(const image::Store& store, const image::Layer& layer) {
    const std::string path = index_path(store, layer);
    LayerIndex index;
    if (sys::stat_if_exists(AT_FDCWD, path)) {
        const Json rows = Json::from_cbor(read_file(path, 1u << 30), true, false);
        if (!rows.is_discarded()) {  // a damaged file is made anew
            for (const Json& row : rows) index.entries.push_back(from_row(row));
            return index;
        }
    }
    auto source = image::open_layer(store.open_blob(layer.digest), layer.digest.text());
    image::Entry entry;
    while (source->next(entry)) index.entries.push_back(entry);
    save_layer_index(store, layer, index);
    return index;
}

}  // namespace slipway::builder
