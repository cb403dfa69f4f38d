// Reads a layer blob as a stream of entries: decompression, then tar by libarchive.
// Must not: write anything, or interpret whiteouts.
#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "../oci/model.hpp"
#include "byte_locale.hpp"
#include "byte_stream.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::image {
namespace {

class TarSource : public EntrySource {
 public:
    TarSource(UniqueFd blob, const std::string& subject, const ExpectedDigests& expected,
              Progress* progress)
        : subject_(subject),
          stream_(open_decompressed(std::move(blob), subject, expected, progress)),
          archive_(archive_read_new()) {
        if (!archive_) throw std::bad_alloc();
        archive_read_support_format_tar(archive_.get());
        ByteLocale locale;
        int status =
            archive_read_open(archive_.get(), this, nullptr, &TarSource::read_callback, nullptr);
        if (status != ARCHIVE_OK) fail(0);
    }

    bool next(Entry& entry) override {
        ByteLocale locale;
        for (;;) {
            archive_entry* header = nullptr;
            int status = archive_read_next_header(archive_.get(), &header);
            if (status == ARCHIVE_RETRY) continue;
            if (status == ARCHIVE_EOF) {
                drain();
                return false;
            }
            if (status < ARCHIVE_WARN) fail(status);
            ++count_;
            if (!take(header, entry)) continue;
            left_ = entry.type == EntryType::file ? entry.size_bytes : 0;
            return true;
        }
    }

    size_t read(void* data, size_t size_bytes) override {
        ByteLocale locale;
        for (;;) {
            la_ssize_t got = archive_read_data(archive_.get(), data, size_bytes);
            if (got > 0) {
                left_ -= std::min<uint64_t>(left_, static_cast<uint64_t>(got));
                return static_cast<size_t>(got);
            }
            if (got == 0) return hole_at_the_end(data, size_bytes);
            if (got == ARCHIVE_RETRY || got == ARCHIVE_WARN) continue;
            fail(static_cast<int>(got));
        }
    }

 private:
    // libarchive (3.6) fills holes between data with zeros, but not the one after the last data.
    size_t hole_at_the_end(void* data, size_t size_bytes) {
        const size_t part = std::min<uint64_t>(left_, size_bytes);
        std::memset(data, 0, part);
        left_ -= part;
        return part;
    }

    static la_ssize_t read_callback(archive* handle, void* self, const void** buffer) {
        auto* source = static_cast<TarSource*>(self);
        try {
            auto piece = source->stream_->next();
            *buffer = piece.data();
            return static_cast<la_ssize_t>(piece.size());
        } catch (...) {
            source->failure_ = std::current_exception();
            archive_set_error(handle, EIO, "reading failed");
            return -1;
        }
    }

    [[noreturn]] void fail(int) {
        if (failure_) std::rethrow_exception(failure_);
        const char* reason = archive_error_string(archive_.get());
        Error error(ErrorKind::invalid_archive,
                    fmt::format("{} is not a valid tar layer: {}", subject_,
                                reason ? reason : "unreadable"));
        if (count_ > 0)
            error.note(
                fmt::format("after {} entries, the last {}", count_, slipway::quoted(last_path_)));
        error.hint("copy or pull the image again; this layer is damaged or was cut off");
        throw error;
    }

    // What stands behind the end mark is ignored, but the compression's checksum is behind it too.
    void drain() {
        while (!stream_->next().empty()) {
        }
    }

    std::string member_path(const char* name, const char* what) {
        if (!name) {
            throw Error(ErrorKind::invalid_archive,
                        fmt::format("entry {} of {} has no {}", count_, subject_, what));
        }
        try {
            return clean_member_path(name);
        } catch (const Error& error) {
            throw Error(error.kind(), fmt::format("{} {} in {} would leave the image", what,
                                                  slipway::quoted(name), subject_))
                .hint("do not use this image: layers with such names are broken or hostile");
        }
    }

    static bool file_type(archive_entry* header, EntryType& type) {
        switch (archive_entry_filetype(header)) {
            case AE_IFREG:
                type = EntryType::file;
                return true;
            case AE_IFDIR:
                type = EntryType::directory;
                return true;
            case AE_IFLNK:
                type = EntryType::symlink;
                return true;
            case AE_IFCHR:
                type = EntryType::char_device;
                return true;
            case AE_IFBLK:
                type = EntryType::block_device;
                return true;
            case AE_IFIFO:
                type = EntryType::fifo;
                return true;
            case AE_IFSOCK:
                type = EntryType::socket;
                return true;
            default:
                return false;
        }
    }

    // Metadata of the AUFS of old Docker versions (.wh..wh.plnk, .wh..wh.aufs): never contents.
    static bool is_aufs_metadata(const std::string& path) {
        return path.starts_with(".wh..wh.") && !path.starts_with(".wh..wh..opq");
    }

    // Translate a header; false for an entry that is not part of the tree.
    bool take(archive_entry* header, Entry& entry) {
        entry = Entry{};
        entry.path = member_path(archive_entry_pathname(header), "name");
        last_path_ = entry.path;
        if (is_aufs_metadata(entry.path)) return false;
        if (const char* target = archive_entry_hardlink(header)) {
            entry.type = EntryType::hardlink;
            entry.link_target = member_path(target, "hard link target");
        } else if (!file_type(header, entry.type)) {
            throw Error(ErrorKind::invalid_archive,
                        fmt::format("{} in {} has an unknown file type",
                                    slipway::quoted(entry.path), subject_));
        }
        if (entry.path.empty() && entry.type != EntryType::directory) {
            throw Error(ErrorKind::invalid_archive,
                        fmt::format("the root of {} is no directory", subject_));
        }
        entry.mode = archive_entry_perm(header) & 07777;
        entry.uid = owner(archive_entry_uid(header), entry.path);
        entry.gid = owner(archive_entry_gid(header), entry.path);
        entry.mtime = archive_entry_mtime_is_set(header) ? archive_entry_mtime(header) : 0;
        if (entry.type == EntryType::file) {
            entry.size_bytes = static_cast<uint64_t>(archive_entry_size(header));
        } else if (entry.type == EntryType::symlink) {
            const char* target = archive_entry_symlink(header);
            if (!target || !*target) {
                throw Error(ErrorKind::invalid_archive,
                            fmt::format("the symbolic link {} in {} has no target",
                                        slipway::quoted(entry.path), subject_));
            }
            entry.link_target = target;
        } else if (entry.type == EntryType::char_device || entry.type == EntryType::block_device) {
            entry.device_major = static_cast<uint32_t>(archive_entry_rdevmajor(header));
            entry.device_minor = static_cast<uint32_t>(archive_entry_rdevminor(header));
        }
        take_xattrs(header, entry);
        return true;
    }

    /// The last number means "nobody in particular" to the kernel (chown's -1).
    uint32_t owner(int64_t id, const std::string& path) const {
        if (id < 0 || id >= 0xffffffff)
            throw Error(ErrorKind::invalid_archive,
                        fmt::format("{} in {} belongs to {}, which is no user or group of Linux",
                                    slipway::quoted(path), subject_, id))
                .hint(
                    "change its owner in the layer that brings it (chown), ids end at 4294967294");
        return static_cast<uint32_t>(id);
    }

    static void take_xattrs(archive_entry* header, Entry& entry) {
        archive_entry_xattr_reset(header);
        const char* name = nullptr;
        const void* value = nullptr;
        size_t size = 0;
        while (archive_entry_xattr_next(header, &name, &value, &size) == ARCHIVE_OK) {
            entry.xattrs[name] = std::string(static_cast<const char*>(value), size);
        }
    }

    struct Free {
        void operator()(archive* handle) const { archive_read_free(handle); }
    };
    std::string subject_;
    std::unique_ptr<ByteStream> stream_;
    std::exception_ptr failure_;
    std::unique_ptr<archive, Free> archive_;
    uint64_t count_ = 0;
    uint64_t left_ = 0;  // of the current file
    std::string last_path_;
};

}  // namespace

std::unique_ptr<EntrySource> open_layer(UniqueFd blob, const std::string& subject) {
    return std::make_unique<TarSource>(std::move(blob), subject, ExpectedDigests{}, nullptr);
}

std::unique_ptr<EntrySource> open_image_layer(const OciImage& image, size_t index,
                                              Progress* progress) {
    const Layer& layer = image.layers.at(index);
    std::string subject = fmt::format("layer {} ({})", index + 1, layer.digest.text());
    return std::make_unique<TarSource>(image.blobs->open_blob(layer.digest), subject,
                                       ExpectedDigests{layer.digest, layer.diff_id}, progress);
}

}  // namespace slipway::image
