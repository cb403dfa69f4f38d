// What the tests of the image room share: scratch directories, trees in memory, layers from them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/entry.hpp"
#include "slipway/image/layer.hpp"

namespace slipway::image {

/// An entry with its contents.
struct Item {
    Entry entry;
    std::string data;
};

inline Item make_item(EntryType type, const std::string& path, uint32_t mode = 0644) {
    Item item;
    item.entry.type = type;
    item.entry.path = path;
    item.entry.mode = mode;
    item.entry.mtime = 1700000000;
    return item;
}
inline Item file(const std::string& path, const std::string& data, uint32_t mode = 0644) {
    Item item = make_item(EntryType::file, path, mode);
    item.data = data;
    item.entry.size_bytes = data.size();
    return item;
}
inline Item directory(const std::string& path, uint32_t mode = 0755) {
    return make_item(EntryType::directory, path, mode);
}
inline Item soft_link(const std::string& path, const std::string& target) {
    Item item = make_item(EntryType::symlink, path, 0777);
    item.entry.link_target = target;
    return item;
}
inline Item hardlink(const std::string& path, const std::string& target) {
    Item item = make_item(EntryType::hardlink, path);
    item.entry.link_target = target;
    return item;
}

/// Items as a stream.
class ItemSource : public EntrySource {
 public:
    explicit ItemSource(std::vector<Item> items) : items_(std::move(items)) {}
    bool next(Entry& entry) override {
        if (at_ == items_.size()) return false;
        entry = items_[at_++].entry;
        offset_ = 0;
        return true;
    }
    size_t read(void* data, size_t size_bytes) override {
        const std::string& all = items_[at_ - 1].data;
        size_t got = all.copy(static_cast<char*>(data), size_bytes, offset_);
        offset_ += got;
        return got;
    }

 private:
    std::vector<Item> items_;
    size_t at_ = 0;
    size_t offset_ = 0;
};

/// Read a stream to its end.
inline std::vector<Item> drain(EntrySource& source) {
    std::vector<Item> items;
    Entry entry;
    while (source.next(entry)) {
        Item item{entry, {}};
        char buffer[1000];
        while (size_t got = source.read(buffer, sizeof buffer)) item.data.append(buffer, got);
        items.push_back(std::move(item));
    }
    return items;
}

inline UniqueFd create(const std::string& path) {
    return sys::open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
}

inline Layer write_layer(const std::string& path, std::vector<Item> items,
                         LayerCompression compression = LayerCompression::gzip,
                         std::optional<int64_t> clamp = {}) {
    UniqueFd fd = create(path);
    LayerWriter writer(fd.get(), compression, clamp);
    ItemSource source(std::move(items));
    writer.add_all(source);
    return writer.finish();
}

inline std::vector<Item> read_layer(const std::string& path) {
    auto source = open_layer(sys::open(path, O_RDONLY), "the test's layer");
    return drain(*source);
}

inline UnpackReport unpack(std::vector<Item> items, const std::string& directory,
                           UnpackStyle style = UnpackStyle::plain) {
    ItemSource source(std::move(items));
    return unpack_layer(source, directory, style);
}

inline void spit(const std::string& path, const std::string& data) {
    UniqueFd fd = create(path);
    sys::write_all(fd.get(), data.data(), data.size(), path);
}

inline struct stat status_of(const std::string& path) {
    auto status = sys::stat_if_exists(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return status ? *status : (struct stat){};
}
inline bool exists(const std::string& path) {
    return sys::stat_if_exists(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW).has_value();
}

/// Run a program and return what it prints; its failure fails the test.
inline std::string output_of(std::vector<std::string> argv) {
    CommandOptions options;
    options.argv = std::move(argv);
    CommandResult result = run_command(options);
    REQUIRE(result.status.success());
    return result.output;
}

/// Return the error that an action throws; none fails the test.
template <typename Action>
Error error_of(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error;
    }
    FAIL("no error was thrown");
    return Error(ErrorKind::internal, "unreachable");
}

/// A scratch directory of one test case.
struct Scratch {
    TempDir temp{temporary_directory(), "slipway-test-"};
    std::string operator/(const std::string& name) const { return join_path(temp.path(), name); }
    std::string dir(const std::string& name) const {
        std::string path = *this / name;
        sys::make_directories(path);
        return path;
    }
};

}  // namespace slipway::image
