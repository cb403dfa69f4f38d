// A squashfs as a stream of entries, for conversion to other formats.
// Must not: hand out a name that could leave the tree, or walk a directory twice.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <set>

#include "reader.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image {
namespace {

using squashfs::DirectoryCursor;
using squashfs::DirectoryEntry;
using squashfs::ImageReader;
using squashfs::InodeInfo;

constexpr size_t kDeepest = 4096;
constexpr size_t kChunk = 1u << 20;

EntryType type_of(uint32_t mode) {
    switch (mode & S_IFMT) {
        case S_IFDIR:
            return EntryType::directory;
        case S_IFLNK:
            return EntryType::symlink;
        case S_IFCHR:
            return EntryType::char_device;
        case S_IFBLK:
            return EntryType::block_device;
        case S_IFIFO:
            return EntryType::fifo;
        case S_IFSOCK:
            return EntryType::socket;
        default:
            return EntryType::file;
    }
}

class SquashfsSource : public EntrySource {
 public:
    SquashfsSource(UniqueFd fd, const std::string& subject, uint64_t offset_bytes)
        : fd_(std::move(fd)), reader_({fd_.get(), offset_bytes}, subject) {}

    bool next(Entry& entry) override {
        entry = Entry{};
        if (!started_) {
            started_ = true;
            const InodeInfo root = reader_.root();
            if (!S_ISDIR(root.mode))
                throw squashfs::damaged(reader_.subject(), "its root is no directory");
            enter(root, "");
            describe(root, "", entry);
            return true;
        }
        DirectoryEntry name;
        while (!stack_.empty() && !reader_.next_entry(stack_.back().cursor, name))
            stack_.pop_back();
        if (stack_.empty()) return false;
        check_name(name.name);
        const std::string& parent = stack_.back().path;
        const std::string path = parent.empty() ? name.name : parent + "/" + name.name;
        const InodeInfo inode = reader_.inode(name.reference);
        if (S_ISDIR(inode.mode)) enter(inode, path);
        describe(inode, path, entry);
        return true;
    }

    size_t read(void* data, size_t size_bytes) override {
        if (!S_ISREG(file_.mode)) return 0;
        size_t done = 0;
        for (const auto& piece : reader_.read(file_, position_, std::min(size_bytes, kChunk))) {
            auto* to = static_cast<uint8_t*>(data) + done;
            if (piece.block)
                std::memcpy(to, piece.block->data.get() + piece.offset, piece.size_bytes);
            else
                std::memset(to, 0, piece.size_bytes);
            done += piece.size_bytes;
        }
        position_ += done;
        return done;
    }

 private:
    struct Level {
        std::string path;
        DirectoryCursor cursor;
    };

    void check_name(const std::string& name) const {
        if (name == "." || name == ".." || name.find('/') != std::string::npos ||
            name.find('\0') != std::string::npos)
            throw Error(ErrorKind::unsafe_path,
                        fmt::format("{} holds a file named {}", slipway::quoted(reader_.subject()),
                                    slipway::quoted(name)));
    }

    void enter(const InodeInfo& directory, const std::string& path) {
        if (!directories_.insert(directory.reference).second || stack_.size() > kDeepest)
            throw squashfs::damaged(
                reader_.subject(),
                fmt::format("the directory {} contains itself", slipway::quoted(path)));
        stack_.push_back({path, reader_.open_directory(directory)});
    }

    void describe(const InodeInfo& inode, const std::string& path, Entry& entry) {
        file_ = {};
        entry.path = path;
        entry.mode = inode.mode & 07777;
        entry.uid = inode.uid;
        entry.gid = inode.gid;
        entry.mtime = inode.mtime;
        entry.type = type_of(inode.mode);
        if (!S_ISDIR(inode.mode) && inode.links > 1) {
            const auto [first, fresh] = linked_.try_emplace(inode.reference, path);
            if (!fresh) {
                entry.type = EntryType::hardlink;
                entry.link_target = first->second;
                return;
            }
        }
        entry.xattrs = reader_.xattrs(inode);
        if (S_ISLNK(inode.mode)) entry.link_target = reader_.link_target(inode);
        if (S_ISCHR(inode.mode) || S_ISBLK(inode.mode)) {
            entry.device_major = (inode.device & 0xfff00) >> 8;
            entry.device_minor = (inode.device & 0xff) | ((inode.device >> 12) & 0xfff00);
        }
        if (!S_ISREG(inode.mode)) return;
        entry.size_bytes = inode.size_bytes;
        file_ = inode;
        position_ = 0;
    }

    UniqueFd fd_;
    ImageReader reader_;
    bool started_ = false;
    std::vector<Level> stack_;
    std::set<uint64_t> directories_;
    std::map<uint64_t, std::string> linked_;  // first names of files with several
    InodeInfo file_;
    uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<EntrySource> open_squashfs(UniqueFd fd, const std::string& subject,
                                           uint64_t offset_bytes) {
    return std::make_unique<SquashfsSource>(std::move(fd), subject, offset_bytes);
}

}  // namespace slipway::image
