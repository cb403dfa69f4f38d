// Finds the members of an uncompressed tar file without reading their contents.
// Must not: understand what is in sparse files, or anything else an archive of images does not
// hold.
#include "tar_index.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kLongNameLimit = 1 << 20;

struct Header {
    char bytes[kBlock];
    std::string_view text(size_t offset, size_t size) const {
        return {bytes + offset, ::strnlen(bytes + offset, size)};
    }
    char type() const { return bytes[156]; }
};

class Indexer {
 public:
    Indexer(int fd, const std::string& subject) : fd_(fd), subject_(subject) {}

    std::map<std::string, TarMember> run() {
        uint64_t at = 0;
        Header header;
        while (read_header(at, header)) {
            uint64_t size = number(header, 124, 12);
            uint64_t data = at + kBlock;
            uint64_t next = data + (size + kBlock - 1) / kBlock * kBlock;
            switch (header.type()) {
                case 'x':
                    read_pax(data, size);
                    break;
                case 'g':
                    break;
                case 'L':
                    long_name_ = contents(data, size);
                    break;
                case 'K':
                    long_link_ = contents(data, size);
                    break;
                case 'S':
                    next += extension_bytes(at, header);
                    forget_names();  // a sparse file is nothing that is opened here
                    break;
                default:
                    if (pax_size_) next = data + (*pax_size_ + kBlock - 1) / kBlock * kBlock;
                    take(header, data, pax_size_.value_or(size));
                    break;
            }
            if (next <= at) damaged("a size is out of range");
            at = next;
        }
        return std::move(members_);
    }

 private:
    [[noreturn]] void damaged(const std::string& why) const {
        throw Error(ErrorKind::invalid_archive,
                    fmt::format("{} is not a valid tar file: {}", subject_, why))
            .hint("save or copy the image again; this file is damaged or was cut off");
    }

    bool read_header(uint64_t at, Header& header) const {
        size_t got = sys::pread(fd_, header.bytes, kBlock, at, subject_);
        if (got == 0 && at > 0) return false;
        if (got < kBlock) damaged("it ends too early");
        static constexpr char kZero[kBlock] = {};
        if (std::memcmp(header.bytes, kZero, kBlock) == 0) return false;
        unsigned sum = 8 * ' ';
        for (size_t i = 0; i < kBlock; ++i) {
            if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header.bytes[i]);
        }
        if (sum != number(header, 148, 8)) damaged("a header's checksum is wrong");
        return true;
    }

    uint64_t number(const Header& header, size_t offset, size_t size) const {
        const auto* bytes = reinterpret_cast<const unsigned char*>(header.bytes + offset);
        uint64_t value = 0;
        if (bytes[0] & 0x80) {  // GNU: base 256
            for (size_t i = size - 8; i < size; ++i) value = value << 8 | bytes[i];
            return value;
        }
        for (size_t i = 0; i < size; ++i) {
            if (bytes[i] == ' ' && value == 0) continue;
            if (bytes[i] < '0' || bytes[i] > '7') break;
            value = value << 3 | static_cast<uint64_t>(bytes[i] - '0');
        }
        return value;
    }

    /// The blocks that continue an old GNU sparse file's map. Source: tar.h of GNU tar.
    uint64_t extension_bytes(uint64_t at, const Header& header) const {
        uint64_t bytes = 0;
        bool more = header.bytes[482] != '\0';
        while (more) {
            char block[kBlock];
            bytes += kBlock;
            if (sys::pread(fd_, block, kBlock, at + bytes, subject_) < kBlock)
                damaged("it ends too early");
            more = block[504] != '\0';
        }
        return bytes;
    }

    std::string contents(uint64_t at, uint64_t size) const {
        if (size > kLongNameLimit) damaged("a name is too long");
        std::string text(size, '\0');
        if (sys::pread(fd_, text.data(), size, at, subject_) != size) damaged("it ends too early");
        return text;
    }

    void read_pax(uint64_t at, uint64_t size) {
        std::string records = contents(at, size);
        for (size_t from = 0; from < records.size();) {
            size_t space = records.find(' ', from);
            size_t length = std::strtoull(records.c_str() + from, nullptr, 10);
            if (space == std::string::npos || length <= space - from + 1 ||
                from + length > records.size()) {
                damaged("a pax record is malformed");
            }
            std::string record = records.substr(space + 1, length - (space - from) - 2);
            size_t equals = record.find('=');
            std::string key = record.substr(0, equals);
            std::string value = equals == std::string::npos ? "" : record.substr(equals + 1);
            if (key == "path") long_name_ = value;
            if (key == "linkpath") long_link_ = value;
            if (key == "size") pax_size_ = std::strtoull(value.c_str(), nullptr, 10);
            from += length;
        }
    }

    void take(const Header& header, uint64_t data, uint64_t size) {
        std::string name(header.text(0, 100));
        bool posix = std::memcmp(header.bytes + 257, "ustar\0", 6) == 0;
        if (posix && header.bytes[345] != '\0') {
            name = fmt::format("{}/{}", header.text(345, 155), name);
        }
        std::string link(header.text(157, 100));
        if (!long_name_.empty()) name = long_name_.c_str();
        if (!long_link_.empty()) link = long_link_.c_str();
        TarMember member{data, size, {}};
        bool regular = header.type() == '0' || header.type() == '\0';
        name = clean_member_path(name);
        if (header.type() == '2') {
            // Relative to the link's own directory; the result may not leave the archive.
            member.link_target = clean_member_path(lexically_normal(
                fmt::format("{}/{}", parent_path(fmt::format("/{}", name)), link)));
        } else if (header.type() == '1') {
            member.link_target = clean_member_path(link);
        }
        if (regular || !member.link_target.empty()) members_[name] = member;
        forget_names();
    }

    void forget_names() {
        long_name_.clear();
        long_link_.clear();
        pax_size_.reset();
    }

    int fd_;
    std::string subject_;
    std::map<std::string, TarMember> members_;
    std::string long_name_;
    std::string long_link_;
    std::optional<uint64_t> pax_size_;
};

}  // namespace

std::map<std::string, TarMember> index_tar(int fd, const std::string& subject) {
    return Indexer(fd, subject).run();
}

}  // namespace slipway::image
