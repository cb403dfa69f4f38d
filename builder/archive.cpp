// Archives that ADD unpacks, read by libarchive.
// Must not: write anything.
#include "archive.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <unistd.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::builder {

namespace {

using image::Entry;
using image::EntryType;

class ArchiveSource : public image::EntrySource {
 public:
    ArchiveSource(int fd, std::string subject) : subject_(std::move(subject)) {
        reader_.reset(archive_read_new());
        archive_read_support_filter_gzip(reader_.get());
        archive_read_support_filter_bzip2(reader_.get());
        archive_read_support_filter_xz(reader_.get());
        archive_read_support_filter_zstd(reader_.get());
        archive_read_support_format_tar(reader_.get());
        usable_ = ::lseek(fd, 0, SEEK_SET) == 0 &&
                  archive_read_open_fd(reader_.get(), fd, 256 << 10) == ARCHIVE_OK && advance();
    }
    /// Whether the file is an archive with at least one member.
    bool usable() const { return usable_ && current_ != nullptr; }

    bool next(Entry& entry) override {
        if (!first_) advance();
        first_ = false;
        if (current_ == nullptr) return false;
        describe(entry);
        return true;
    }

    size_t read(void* data, size_t size_bytes) override {
        const la_ssize_t got = archive_read_data(reader_.get(), data, size_bytes);
        if (got < 0) fail();
        return static_cast<size_t>(got);
    }

 private:
    [[noreturn]] void fail() const {
        const char* reason = archive_error_string(reader_.get());
        throw Error(ErrorKind::invalid_archive,
                    fmt::format("cannot unpack {}: {}", slipway::quoted(subject_),
                                reason ? reason : "damaged"));
    }

    /// Read the next header; false only for a first header that cannot be read.
    bool advance() {
        current_ = nullptr;
        const int status = archive_read_next_header(reader_.get(), &current_);
        if (status == ARCHIVE_EOF) {
            current_ = nullptr;
        } else if (status < ARCHIVE_WARN) {
            current_ = nullptr;
            if (!first_) fail();
            return false;
        }
        return true;
    }

    void describe(Entry& entry) const {
        entry = Entry{};
        const auto text = [](const char* value) { return std::string(value ? value : ""); };
        entry.path = clean_member_path(text(archive_entry_pathname(current_)));
        entry.mode = archive_entry_perm(current_) & 07777;
        entry.uid = static_cast<uint32_t>(archive_entry_uid(current_));
        entry.gid = static_cast<uint32_t>(archive_entry_gid(current_));
        entry.mtime = archive_entry_mtime(current_);
        if (const char* link = archive_entry_hardlink(current_)) {
            entry.type = EntryType::hardlink;
            entry.link_target = clean_member_path(link);
            return;
        }
        switch (archive_entry_filetype(current_)) {
            case AE_IFDIR:
                entry.type = EntryType::directory;
                break;
            case AE_IFLNK:
                entry.type = EntryType::symlink;
                entry.link_target = text(archive_entry_symlink(current_));
                break;
            case AE_IFIFO:
                entry.type = EntryType::fifo;
                break;
            case AE_IFSOCK:
                entry.type = EntryType::socket;
                break;
            case AE_IFCHR:
            case AE_IFBLK:
                entry.type = archive_entry_filetype(current_) == AE_IFCHR ? EntryType::char_device
                                                                          : EntryType::block_device;
                entry.device_major = static_cast<uint32_t>(archive_entry_rdevmajor(current_));
                entry.device_minor = static_cast<uint32_t>(archive_entry_rdevminor(current_));
                break;
            default:
                entry.type = EntryType::file;
                entry.size_bytes = static_cast<uint64_t>(archive_entry_size(current_));
        }
    }

    struct Free {
        void operator()(archive* reader) const { archive_read_free(reader); }
    };
    std::unique_ptr<archive, Free> reader_;
    archive_entry* current_ = nullptr;
    std::string subject_;
    bool first_ = true;
    bool usable_ = false;
};

}  // namespace

std::unique_ptr<image::EntrySource> open_archive(int fd, const std::string& subject) {
    auto source = std::make_unique<ArchiveSource>(fd, subject);
    if (!source->usable()) return nullptr;
    return source;
}

}  // namespace slipway::builder
