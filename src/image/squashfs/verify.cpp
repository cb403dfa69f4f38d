// Read back a squashfs that was just written: every inode, every listing, every block's place.
// Must not: decompress data; that it was written is the writer's affair, that it can be found ours.
#include <fmt/format.h>
#include <sys/stat.h>

#include <set>

#include "reader.hpp"
#include "tables.hpp"

namespace slipway::image::squashfs {
namespace {

void verify_data(const ImageReader& reader, const InodeInfo& file) {
    const uint64_t blocks = reader.block_count(file);
    uint64_t end = file.start;
    for (uint64_t first = 0; first < blocks; first += 2048) {
        const auto places = reader.locate(file, first, std::min<uint64_t>(2048, blocks - first));
        end = places.back().position + (places.back().word & kSizeMask);
    }
    if (blocks > 0 && end > reader.super().inode_table)
        throw damaged(reader.subject(), "a file's blocks reach into the tables");
}

}  // namespace

void verify_squashfs(int fd, const std::string& subject, uint32_t inodes) {
    const ImageReader reader({fd}, subject, 0);
    std::set<uint64_t> seen{reader.super().root};
    std::vector<InodeInfo> directories{reader.root()};
    while (!directories.empty()) {
        const InodeInfo directory = directories.back();
        directories.pop_back();
        DirectoryCursor cursor = reader.open_directory(directory);
        DirectoryEntry entry;
        while (reader.next_entry(cursor, entry)) {
            if (!seen.insert(entry.reference).second) continue;
            InodeInfo inode = reader.inode(entry.reference);
            if (inode.number != entry.number || (inode.mode & S_IFMT) != entry.mode)
                throw damaged(subject, fmt::format("the inode of {} is not what its directory says",
                                                   slipway::quoted(entry.name)));
            if (S_ISREG(inode.mode)) verify_data(reader, inode);
            if (S_ISLNK(inode.mode)) reader.link_target(inode);
            reader.xattrs(inode);
            if (S_ISDIR(inode.mode)) directories.push_back(std::move(inode));
        }
    }
    if (seen.size() != inodes || reader.super().inodes != inodes)
        throw damaged(subject, fmt::format("it holds {} inodes of {}", seen.size(), inodes));
}

}  // namespace slipway::image::squashfs
