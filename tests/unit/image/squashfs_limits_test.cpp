// The largest things that an image may hold, and the first that it may not.
// Must not: hold a file's bytes; they are made while they are read.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

/// `count` entries, each described by `describe`; a file is zeros but for the last 8 bytes of every
/// `every`-th GiB, which hold their own position.
class Made : public EntrySource {
 public:
    using Describe = std::function<void(uint64_t number, Entry& entry)>;
    Made(uint64_t count, Describe describe) : count_(count), describe_(std::move(describe)) {}
    bool next(Entry& entry) override {
        if (next_ == count_) return false;
        entry = Entry{};
        entry.mode = 0644;
        entry.mtime = 1700000000;
        describe_(next_++, entry);
        size_bytes_ = entry.type == EntryType::file ? entry.size_bytes : 0;
        position_ = 0;
        return true;
    }
    size_t read(void* data, size_t size_bytes) override {
        constexpr uint64_t kGiB = 1 << 30;
        const uint64_t mark = (position_ / kGiB + 1) * kGiB - sizeof position_;
        size_t part = std::min<uint64_t>(size_bytes, size_bytes_ - position_);
        if (position_ == mark && part >= sizeof position_) {
            part = sizeof position_;
            std::memcpy(data, &position_, part);
        } else {
            if (position_ < mark) part = std::min<uint64_t>(part, mark - position_);
            std::memset(data, 0, part);
        }
        position_ += part;
        return part;
    }

 private:
    const uint64_t count_;
    Describe describe_;
    uint64_t next_ = 0, size_bytes_ = 0, position_ = 0;
};

struct Written {
    TempDir directory{temporary_directory()};
    std::string path = directory.path() + "/o.sqfs";
    SquashfsReport report;
    SquashfsOptions options;

    void write(uint64_t count, const Made::Describe& describe) {
        const LayerOpener open = [&] { return std::make_unique<Made>(count, describe); };
        report = write_squashfs(std::vector<LayerOpener>{open}, {}, path, options);
    }
    std::unique_ptr<EntrySource> open() const {
        return open_squashfs(sys::open(path, O_RDONLY), path);
    }
};

}  // namespace

TEST_CASE("squashfs: a file of 10 GB in 2.4 million blocks") {
    Written image;
    image.options.block_size_bytes = 4096;
    constexpr uint64_t kSize = (uint64_t{10} << 30) - 3;  // the last mark is cut off
    image.write(1, [](uint64_t, Entry& entry) {
        entry.path = "huge";
        entry.size_bytes = kSize;
    });
    CHECK(image.report.input_bytes >= kSize);
    CHECK(std::filesystem::file_size(image.path) < 1 << 20);
    const auto source = image.open();
    Entry entry;
    while (source->next(entry) && entry.path != "huge") continue;
    REQUIRE(entry.size_bytes == kSize);
    std::vector<char> buffer(1 << 20);
    uint64_t position = 0, marks = 0;
    bool only_marks = true;
    while (const size_t n = source->read(buffer.data(), buffer.size())) {
        size_t zeros = n;
        if ((position + n) % (1 << 30) == 0) {  // a piece that ends with a mark
            uint64_t mark = 0;
            std::memcpy(&mark, buffer.data() + n - sizeof mark, sizeof mark);
            marks += mark == position + n - sizeof mark;
            zeros -= sizeof mark;
        }
        only_marks &= buffer[0] == 0 && std::memcmp(buffer.data(), &buffer[1], zeros - 1) == 0;
        position += n;
    }
    CHECK(position == kSize);
    CHECK(marks == 9);
    CHECK(only_marks);
}

TEST_CASE("squashfs: 300,000 files") {
    Written image;
    constexpr uint64_t kFiles = 300000;
    image.write(kFiles, [](uint64_t number, Entry& entry) {
        entry.path = fmt::format("d{}/s{}/f{}", number % 7, number % 1000, number);
        entry.size_bytes = number % 3 == 0 ? 0 : 1 + number % 50;
    });
    CHECK(image.report.inodes >= kFiles + 7 * 1000);
    const auto source = image.open();
    Entry entry;
    uint64_t files = 0, bytes = 0;
    while (source->next(entry)) {
        files += entry.type == EntryType::file && entry.path[0] == 'd';
        bytes += entry.path[0] == 'd' ? entry.size_bytes : 0;
    }
    CHECK(files == kFiles);
    CHECK(bytes > 0);
}

TEST_CASE("squashfs: 65,535 different ids, and not one more") {
    Written image;
    const auto owners = [](uint64_t number, Entry& entry) {
        entry.path = fmt::format("f{}", number);
        if (number == 32767) {
            entry.uid = 5;  // one more than fits
            return;
        }
        entry.uid = static_cast<uint32_t>(0xfffffffe - 2 * number);
        entry.gid = static_cast<uint32_t>(0xfffffffe - 2 * number - 1);
    };
    // The root's directories and the configuration belong to 0, which is one id more.
    image.write(32767, owners);
    const auto source = image.open();
    Entry entry;
    uint64_t right = 0;
    while (source->next(entry)) {
        if (entry.path[0] != 'f') continue;
        Entry expected;
        owners(std::stoull(entry.path.substr(1)), expected);
        right += entry.uid == expected.uid && entry.gid == expected.gid;
    }
    CHECK(right == 32767);
    Written refused;
    CHECK_THROWS_WITH(refused.write(32768, owners),
                      ContainsSubstring("more than 65535 different owners"));
    CHECK_FALSE(std::filesystem::exists(refused.path));
}
