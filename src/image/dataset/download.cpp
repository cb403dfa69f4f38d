// A downloaded file as entries: as it is, decompressed, or an archive's members, by libarchive.
// Must not: write anything, or let a member's name leave the pack.
#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>

#include "../layer/byte_locale.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "source.hpp"

namespace slipway::image {
namespace {

using Unpack = CatalogueFile::Unpack;

constexpr size_t kPieceBytes = 1 << 20;

struct CloseArchive {
    void operator()(archive* handle) const { archive_read_free(handle); }
};
using ArchivePtr = std::unique_ptr<archive, CloseArchive>;

Error damaged_archive(const std::string& subject, archive* handle) {
    const char* reason = archive_error_string(handle);
    return Error(ErrorKind::invalid_archive,
                 fmt::format("{} cannot be unpacked: {}", subject,
                             reason != nullptr ? reason : "not understood"))
        .hint("correct \"unpack\" in the catalogue entry: none, gzip, tar or zip");
}

ArchivePtr open_archive(int fd, Unpack kind, const std::string& subject) {
    ArchivePtr handle(archive_read_new());
    if (!handle) throw std::bad_alloc();
    if (kind == Unpack::tar) archive_read_support_format_tar(handle.get());
    if (kind == Unpack::zip) archive_read_support_format_zip_seekable(handle.get());
    if (kind == Unpack::gzip) archive_read_support_format_raw(handle.get());
    if (kind != Unpack::zip) archive_read_support_filter_all(handle.get());
    if (::lseek(fd, 0, SEEK_SET) != 0) throw SysError("cannot read " + subject, "lseek");
    if (archive_read_open_fd(handle.get(), fd, kPieceBytes) != ARCHIVE_OK)
        throw damaged_archive(subject, handle.get());
    return handle;
}

/// A stream that begins with the directories above what it holds.
class Download : public EntrySource {
 public:
    Download(UniqueFd fd, const CatalogueFile& file, const std::string& subject)
        : fd_(std::move(fd)), file_(file), subject_(subject) {
        const bool archive = file.unpack == Unpack::tar || file.unpack == Unpack::zip;
        const std::string path = file.path;
        for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
            above_.push_back(path.substr(0, at));
        if (archive && !path.empty()) above_.push_back(path);
        if (file.unpack == Unpack::gzip) size_bytes_ = measure();
        if (file.unpack != Unpack::none) archive_ = open_archive(fd_.get(), file.unpack, subject_);
    }

    bool next(Entry& entry) override {
        entry = Entry{};
        if (above_at_ < above_.size()) {
            entry.type = EntryType::directory;
            entry.path = above_[above_at_++];
            entry.mode = 0755;
            return true;
        }
        if (file_.unpack == Unpack::tar || file_.unpack == Unpack::zip) return next_member(entry);
        if (done_) return false;
        done_ = true;
        entry.path = file_.path;
        entry.mode = 0644;
        entry.size_bytes = file_.unpack == Unpack::gzip
                               ? size_bytes_
                               : static_cast<uint64_t>(sys::fstat(fd_.get(), subject_).st_size);
        if (archive_) header();
        return true;
    }

    size_t read(void* data, size_t size_bytes) override {
        if (!archive_) {
            const size_t n = sys::pread(fd_.get(), data, size_bytes, at_, subject_);
            at_ += n;
            return n;
        }
        const ByteLocale locale;
        const la_ssize_t n = archive_read_data(archive_.get(), data, size_bytes);
        if (n < 0) throw damaged_archive(subject_, archive_.get());
        return static_cast<size_t>(n);
    }

 private:
    archive_entry* header() {
        archive_entry* header = nullptr;
        const int status = read_header(header);
        if (status == ARCHIVE_EOF) return nullptr;
        if (status < ARCHIVE_WARN) throw damaged_archive(subject_, archive_.get());
        return header;
    }

    int read_header(archive_entry*& header) {
        if (file_.unpack == Unpack::zip) {
            const ZipLocale locale;
            return archive_read_next_header(archive_.get(), &header);
        }
        const ByteLocale locale;
        return archive_read_next_header(archive_.get(), &header);
    }

    /// How long a compressed file is unpacked: its own word for that counts modulo 4 GiB.
    uint64_t measure() {
        archive_ = open_archive(fd_.get(), file_.unpack, subject_);
        if (header() == nullptr) return 0;
        uint64_t size = 0;
        std::vector<char> buffer(kPieceBytes);
        while (const size_t n = read(buffer.data(), buffer.size())) size += n;
        return size;
    }

    Error bad_member(const std::string& problem) const {
        return Error(ErrorKind::invalid_archive,
                     fmt::format("{} cannot be unpacked: {}", subject_, problem))
            .hint(
                "pack the archive again, with names in UTF-8; to read a zip's this machine needs "
                "the locale C.UTF-8");
    }

    std::string placed(const char* name) const {
        const std::string clean = clean_member_path(name);
        if (file_.path.empty() || clean.empty()) return clean.empty() ? file_.path : clean;
        return file_.path + "/" + clean;
    }

    Error no_target(const std::string& path) const {
        return bad_member(fmt::format("the link {} has no target", slipway::quoted(path)));
    }

    std::string symlink_target(archive_entry* member, const std::string& path) const {
        const char* target = archive_entry_symlink(member);
        if (target == nullptr || *target == '\0') throw no_target(path);
        return target;
    }

    bool next_member(Entry& entry) {
        while (archive_entry* member = header()) {
            entry = Entry{};
            const char* name = archive_entry_pathname(member);
            if (name == nullptr) throw bad_member("a member's name cannot be read");
            const bool is_directory = archive_entry_filetype(member) == AE_IFDIR;
            if (!is_directory && clean_member_path(name).empty())
                throw bad_member("a member that is no directory has no name");
            entry.path = placed(name);
            entry.mtime = archive_entry_mtime(member);
            entry.mode = archive_entry_perm(member) & 0777;
            if (const char* target = archive_entry_hardlink(member)) {
                if (clean_member_path(target).empty()) throw no_target(entry.path);
                entry.type = EntryType::hardlink;
                entry.link_target = placed(target);
                return true;
            }
            switch (archive_entry_filetype(member)) {
                case AE_IFDIR:
                    entry.type = EntryType::directory;
                    entry.mode |= 0700;
                    return true;
                case AE_IFLNK:
                    entry.type = EntryType::symlink;
                    entry.mode = 0777;
                    entry.link_target = symlink_target(member, entry.path);
                    return true;
                case AE_IFREG:
                    if (archive_entry_size_is_set(member) == 0)
                        throw Error(ErrorKind::unsupported,
                                    fmt::format("{} does not tell how large {} is", subject_,
                                                slipway::quoted(entry.path)));
                    entry.size_bytes = static_cast<uint64_t>(archive_entry_size(member));
                    entry.mode |= 0400;
                    return true;
                default:  // devices and pipes are no data
                    break;
            }
        }
        return false;
    }

    UniqueFd fd_;
    const CatalogueFile file_;
    const std::string subject_;
    std::vector<std::string> above_;
    size_t above_at_ = 0;
    ArchivePtr archive_;
    uint64_t size_bytes_ = 0, at_ = 0;
    bool done_ = false;
};

}  // namespace

std::unique_ptr<EntrySource> open_download(UniqueFd fd, const CatalogueFile& file,
                                           const std::string& subject) {
    return std::make_unique<Download>(std::move(fd), file, subject);
}

}  // namespace slipway::image
