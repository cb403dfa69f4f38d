// Measures the store and keeps it within its limit.
// Must not: delete a blob or a name.
#include "size.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kStatBlockBytes = 512;

/// The room that a tree takes; what goes meanwhile, or may not be read, counts as nothing.
uint64_t room_of(int dir, const std::string& name) {
    uint64_t sum = 0;
    try {
        const auto status = sys::stat_if_exists(dir, name, AT_SYMLINK_NOFOLLOW);
        if (!status) return 0;
        sum = static_cast<uint64_t>(status->st_blocks) * kStatBlockBytes;
        if (!S_ISDIR(status->st_mode)) return sum;
        const auto below = sys::openat_if_exists(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (!below) return sum;
        for (const std::string& child : sys::list_directory(below->get(), name))
            sum += room_of(below->get(), child);
    } catch (const Error& error) {
        log::verbose("not counted: {}", error.message());
    }
    return sum;
}

}  // namespace

std::vector<StoredFile> files_in(const std::string& store, const std::string& directory) {
    std::vector<StoredFile> files;
    const std::string path = join_path(store, directory);
    const auto dir = sys::openat_if_exists(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (!dir) return files;
    for (const std::string& name : sys::list_directory(dir->get(), path)) {
        const auto status = sys::stat_if_exists(dir->get(), name, AT_SYMLINK_NOFOLLOW);
        if (!status) continue;
        files.push_back({join_path(directory, name), room_of(dir->get(), name),
                         std::max(status->st_atim.tv_sec, status->st_mtim.tv_sec)});
    }
    return files;
}

uint64_t size_of_store(const std::string& store) { return room_of(AT_FDCWD, store); }

uint64_t parse_size(const std::string& text, const std::string& origin) {
    static constexpr std::string_view kUnits = "KMGTP";
    uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
    const size_t power = unit.empty() ? std::string_view::npos : kUnits.find(unit[0]);
    if (power != std::string_view::npos) unit.remove_prefix(1);
    const bool known = unit.empty() || unit == "B" || (unit == "iB" && power != unit.npos);
    const unsigned shift =
        power == std::string_view::npos ? 0 : 10 * (static_cast<unsigned>(power) + 1);
    if (failure != std::errc() || !known || (number << shift) >> shift != number) {
        throw Error(ErrorKind::usage, fmt::format("{} is no size", slipway::quoted(text)))
            .note("requested by: " + origin)
            .hint("write a number with a unit: 500M, 20G, 1T");
    }
    return number << shift;
}

void keep_store_within_limit(const std::string& store, int64_t spare_since) noexcept {
    try {
        const char* limit = std::getenv("SLIPWAY_STORE_LIMIT");
        if (limit == nullptr || *limit == '\0') return;
        GcOptions options;
        options.build_cache = false;
        options.spare_since = spare_since;
        options.keep_bytes = parse_size(limit, "SLIPWAY_STORE_LIMIT");
        if (size_of_store(store) <= *options.keep_bytes) return;
        const GcReport report = Store::open(store).collect_garbage(options);
        log::verbose("the store is limited to {}: deleted {}", limit,
                     human_bytes(report.freed_bytes));
        if (report.kept_bytes > *options.keep_bytes)
            log::warning("the image store holds {}, more than SLIPWAY_STORE_LIMIT={}: {}",
                         human_bytes(report.kept_bytes), limit,
                         "take images out of it with \"slipway rmi\"");
    } catch (const Error& error) {
        if (error.kind() == ErrorKind::usage) log::warning("{}", error.message());
    } catch (const std::exception&) {
        // The next command that adds something tries again.
    }
}

std::string holder_of_lock(const std::string& path) {
    try {
        std::string text = read_file(path, 4096);
        while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
        if (!text.empty()) return text;
    } catch (const Error&) {
        // It is only a courtesy.
    }
    return "a process that does not say";
}

}  // namespace slipway::image
