// Directory listings as FUSE wants them, with attributes where they save requests.
// Must not: fail a whole listing for the sake of one damaged inode in it.
#define FUSE_USE_VERSION 35
#include "listing.hpp"

#include <algorithm>
#include <cstring>

namespace slipway::image::squashfs {
namespace {

constexpr unsigned kListingsWithFiles = 32;  // then one without, to see whether they are wanted

/// One reply that is being filled.
class Reply {
 public:
    Reply(Server& server, fuse_req_t request, size_t size_bytes, bool plus)
        : server_(server), request_(request), bytes_(size_bytes), plus_(plus) {}

    /// False when there is no room. `inode` null: the name alone.
    bool add(const char* name, uint32_t number, uint32_t mode, uint64_t next,
             const InodeInfo* inode) {
        fuse_entry_param entry = {};
        if (inode != nullptr) entry = server_.entry(*inode);
        entry.attr.st_ino = number;
        entry.attr.st_mode = inode != nullptr ? inode->mode : mode;
        char* const at = bytes_.data() + used_;
        const size_t room = bytes_.size() - used_;
        const auto offset = static_cast<off_t>(next);
        const size_t size = plus_
                                ? fuse_add_direntry_plus(request_, at, room, name, &entry, offset)
                                : fuse_add_direntry(request_, at, room, name, &entry.attr, offset);
        if (size > room) return false;
        used_ += size;
        return true;
    }
    std::vector<char> take() {
        bytes_.resize(used_);
        return std::move(bytes_);
    }

 private:
    Server& server_;
    const fuse_req_t request_;
    std::vector<char> bytes_;
    size_t used_ = 0;
    const bool plus_;
};

/// A name that no path can hold: the kernel would refuse the whole reply.
bool is_hidden(const std::string& name) {
    return name.find('/') != std::string::npos || std::strlen(name.c_str()) != name.size() ||
           name == "." || name == "..";
}

/// Its inode, if that is as the listing says; who looks the others up is told what is wrong.
std::optional<InodeInfo> inode_of(const Server& server, const DirectoryEntry& entry) {
    try {
        const InodeInfo inode = server.reader().inode(entry.reference);
        if ((inode.mode & S_IFMT) == entry.mode) return inode;
    } catch (const Error&) {
    }
    return std::nullopt;
}

}  // namespace

bool Listings::wants_files(uint64_t directory) {
    const std::lock_guard lock(mutex_);
    if (left_ > 0) {
        --left_;
        return true;
    }
    without_files_[next_++ % without_files_.size()] = directory;
    return false;
}

void Listings::file_was_looked_up(uint64_t directory) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(without_files_.begin(), without_files_.end(), directory);
    if (found == without_files_.end()) return;
    *found = 0;
    left_ = kListingsWithFiles;
}

std::vector<char> list_directory(Server& server, fuse_req_t request, const InodeInfo& directory,
                                 uint64_t node, size_t size_bytes, uint64_t offset, bool plus,
                                 bool with_files,
                                 std::vector<std::pair<uint64_t, InodeInfo>>& known) {
    Reply reply(server, request, size_bytes, plus);
    uint64_t next = offset;  // 0 and 1 are the dots; entry i is i + 2
    if (next == 0 && reply.add(".", directory.number, S_IFDIR, 1, nullptr)) next = 1;
    const uint32_t parent = node == FUSE_ROOT_ID ? directory.number : directory.parent_number;
    if (next == 1 && reply.add("..", parent, S_IFDIR, 2, nullptr)) next = 2;
    if (next < 2) return reply.take();

    const auto shown = server.shown_in(directory);  // come first, so that all offsets are known
    for (; next - 2 < shown.size(); ++next) {
        const Server::Shown& point = *shown[next - 2];
        const InodeInfo inode = server.inode(server.node_of(point.reference));
        if (!reply.add(point.name.c_str(), inode.number, inode.mode, next + 1,
                       plus ? &inode : nullptr))
            return reply.take();
    }

    const uint64_t first = 2 + shown.size();
    DirectoryCursor cursor = server.cursor_at(directory, next - first), before = cursor;
    DirectoryEntry entry;
    while (server.reader().next_entry(cursor, entry)) {
        if (!is_hidden(entry.name)) {
            std::optional<InodeInfo> inode;
            if (plus && (with_files || entry.mode == S_IFDIR)) inode = inode_of(server, entry);
            if (!reply.add(entry.name.c_str(), entry.number, entry.mode, next + 1,
                           inode ? &*inode : nullptr))
                break;
            if (inode) known.emplace_back(server.node_of(inode->reference), *inode);
        }
        ++next;
        before = cursor;
    }
    server.keep_cursor(directory, next - first, before);
    return reply.take();
}

}  // namespace slipway::image::squashfs
