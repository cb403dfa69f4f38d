// The build context: a directory of the host without what .dockerignore leaves out.
// Must not: follow a link out of the context.
#include "context.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::builder {

DigestMemo::DigestMemo(std::string path) : path_(std::move(path)) {
    if (!sys::stat_if_exists(AT_FDCWD, path_)) return;
    const Json stored = Json::from_cbor(read_file(path_, 1u << 30), true, false);
    if (!stored.is_object()) return;
    for (const auto& [key, value] : stored.items())
        if (value.is_string()) digests_[key] = value.get<std::string>();
}

std::string DigestMemo::digest(int fd, const std::string& subject) {
    const struct stat status = sys::fstat(fd, subject);
    const std::string key = fmt::format(
        "{}:{}:{}:{}.{}:{}.{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
        status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
    const auto known = digests_.find(key);
    if (known != digests_.end()) return used_[key] = known->second;
    const std::string digest = sha256_file(fd, subject).hex();
    // A file changed within the clock's grain of now could change again without showing it.
    if (std::time(nullptr) - status.st_ctim.tv_sec > 1) {
        used_[key] = digest;
        changed_ = true;
    }
    return digest;
}

void DigestMemo::save() {
    if (!changed_) return;
    const std::vector<uint8_t> bytes = Json::to_cbor(Json(used_));
    write_file_atomic(path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    changed_ = false;
}

BuildContext::BuildContext(const std::string& directory, IgnorePatterns ignored, DigestMemo& memo)
    : root_(directory), ignored_(std::move(ignored)), memo_(memo) {}

std::optional<image::Entry> BuildContext::find(const std::string& path) const {
    const auto status = path.empty() ? root_.stat("/") : root_.stat(path, false);
    if (!status) return std::nullopt;
    image::Entry entry;
    entry.path = path;
    entry.mode = status->st_mode & 07777;
    entry.mtime = status->st_mtim.tv_sec;
    switch (status->st_mode & S_IFMT) {
        case S_IFREG:
            entry.type = image::EntryType::file;
            entry.size_bytes = static_cast<uint64_t>(status->st_size);
            break;
        case S_IFDIR:
            entry.type = image::EntryType::directory;
            break;
        case S_IFLNK: {
            entry.type = image::EntryType::symlink;
            const UniqueFd link = root_.open(path, O_PATH | O_NOFOLLOW);
            entry.link_target = sys::readlinkat(link.get(), "");
            break;
        }
        case S_IFIFO:
            entry.type = image::EntryType::fifo;
            break;
        default:
            entry.type = image::EntryType::socket;
            break;
    }
    if (path.empty() || !ignored_.matches(path)) return entry;
    const bool passage =
        entry.type == image::EntryType::directory && ignored_.may_take_back_below(path);
    if (!passage) return std::nullopt;
    return entry;
}

bool BuildContext::only_for_contents(const std::string& path) const {
    return !path.empty() && ignored_.matches(path);
}

std::vector<std::string> BuildContext::names(const std::string& directory) const {
    const UniqueFd fd = root_.open(directory.empty() ? "/" : directory, O_RDONLY | O_DIRECTORY);
    std::vector<std::string> names = sys::list_directory(fd.get(), directory);
    if (!ignored_.empty())
        std::erase_if(names, [&](const std::string& name) {
            const std::string path = member_join(directory, name);
            return ignored_.matches(path) && !ignored_.may_take_back_below(path);
        });
    return names;
}

UniqueFd BuildContext::open(const std::string& path) const {
    try {
        return root_.open(path, O_RDONLY | O_NOFOLLOW);
    } catch (Error& error) {
        throw error
            .note(fmt::format("the file belongs to the build context {}",
                              slipway::quoted(root_.name())))
            .hint("make it readable, or name it in .dockerignore");
    }
}

std::string BuildContext::digest(const std::string& path) const {
    const UniqueFd file = open(path);
    return memo_.digest(file.get(), path);
}

IgnorePatterns read_ignore_file(const std::string& context, const std::string& dockerfile) {
    std::vector<std::string> candidates;
    if (!dockerfile.empty()) candidates.push_back(dockerfile + ".dockerignore");
    candidates.push_back(join_path(context, ".dockerignore"));
    for (const std::string& path : candidates) {
        if (!sys::stat_if_exists(AT_FDCWD, path)) continue;
        return IgnorePatterns::parse_file(read_file(path), std::string(base_name(path)));
    }
    return {};
}

}  // namespace slipway::builder
