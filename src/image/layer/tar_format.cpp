// Makes pax tar headers whose bytes depend on nothing but the entry.
// Must not: read or write files.
// Not by libarchive, because a layer's digest may not change with libarchive's version or the
// locale, and because libarchive adds records of its own.
#include "tar_format.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

/// POSIX ustar header, 512 bytes.
struct UstarHeader {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link_name[100];
    char magic[6];
    char version[2];
    char user_name[32];
    char group_name[32];
    char device_major[8];
    char device_minor[8];
    char prefix[155];
    char padding[12];
};
static_assert(sizeof(UstarHeader) == kTarBlockBytes);

/// Write an octal number with leading zeros and a NUL; false if it does not fit.
template <size_t N>
bool put_octal(char (&field)[N], uint64_t value) {
    std::string digits = fmt::format("{:0{}o}", value, N - 1);
    if (digits.size() > N - 1) return false;
    std::memcpy(field, digits.data(), digits.size());
    field[N - 1] = '\0';
    return true;
}

template <size_t N>
void put_text(char (&field)[N], const std::string& text) {
    std::memcpy(field, text.data(), std::min(text.size(), N));
}

char type_flag(EntryType type) {
    switch (type) {
        case EntryType::file:
            return '0';
        case EntryType::hardlink:
            return '1';
        case EntryType::symlink:
            return '2';
        case EntryType::char_device:
            return '3';
        case EntryType::block_device:
            return '4';
        case EntryType::directory:
            return '5';
        case EntryType::fifo:
            return '6';
        case EntryType::socket:
            break;
    }
    throw Error(ErrorKind::internal, "a socket cannot be written to a tar");
}

bool is_ascii(const std::string& text) {
    return std::all_of(text.begin(), text.end(),
                       [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

bool is_utf8(const std::string& text) {
    for (size_t i = 0; i < text.size();) {
        auto byte = static_cast<unsigned char>(text[i]);
        size_t more = byte < 0x80                   ? 0
                      : byte >= 0xc2 && byte < 0xe0 ? 1
                      : (byte & 0xf0) == 0xe0       ? 2
                      : byte >= 0xf0 && byte < 0xf5 ? 3
                                                    : 4;
        if (more == 4 || i + more >= text.size()) return false;
        for (size_t k = 1; k <= more; ++k) {
            if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
        }
        auto second = more > 0 ? static_cast<unsigned char>(text[i + 1]) : 0;
        if ((byte == 0xe0 && second < 0xa0) || (byte == 0xed && second > 0x9f) ||
            (byte == 0xf0 && second < 0x90) || (byte == 0xf4 && second > 0x8f)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

/// "LENGTH KEY=VALUE\n", where LENGTH counts itself.
std::string pax_record(const std::string& key, const std::string& value) {
    size_t rest = key.size() + value.size() + 3;  // the space, "=" and the newline
    size_t length = rest + 1;
    while (fmt::formatted_size("{}", length) + rest != length) {
        length = fmt::formatted_size("{}", length) + rest;
    }
    return fmt::format("{} {}={}\n", length, key, value);
}

/// Put a name into name and prefix; false if it does not fit.
bool put_name(UstarHeader& header, const std::string& name) {
    if (name.size() <= sizeof header.name) {
        put_text(header.name, name);
        return true;
    }
    size_t from = name.size() - std::min(name.size(), sizeof header.name + 1);
    size_t slash = name.find('/', from);
    // The rest may not be empty: a directory's final "/" is no place to cut.
    if (slash == std::string::npos || slash == 0 || slash > sizeof header.prefix ||
        slash + 1 >= name.size()) {
        return false;
    }
    put_text(header.prefix, name.substr(0, slash));
    put_text(header.name, name.substr(slash + 1));
    return true;
}

void finish_checksum(UstarHeader& header) {
    std::memset(header.checksum, ' ', sizeof header.checksum);
    unsigned sum = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
    for (size_t i = 0; i < sizeof header; ++i) sum += bytes[i];
    std::string digits = fmt::format("{:06o}", sum);
    std::memcpy(header.checksum, digits.data(), 6);
    header.checksum[6] = '\0';
    header.checksum[7] = ' ';
}

std::string to_block(const UstarHeader& header) {
    return {reinterpret_cast<const char*>(&header), sizeof header};
}

UstarHeader blank_header(char type) {
    UstarHeader header;
    std::memset(&header, 0, sizeof header);
    header.type = type;
    std::memcpy(header.magic, "ustar", 6);
    std::memcpy(header.version, "00", 2);
    put_octal(header.mode, 0644);
    put_octal(header.uid, 0);
    put_octal(header.gid, 0);
    put_octal(header.size, 0);
    put_octal(header.mtime, 0);
    put_octal(header.device_major, 0);
    put_octal(header.device_minor, 0);
    return header;
}

std::string pax_blocks(const std::string& records) {
    UstarHeader header = blank_header('x');
    put_text(header.name, "PaxHeaders/entry");
    put_octal(header.size, records.size());
    finish_checksum(header);
    std::string blocks = to_block(header) + records;
    blocks.resize((blocks.size() + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes, '\0');
    return blocks;
}

std::string stored_name(const Entry& entry) {
    if (entry.path.empty()) return "./";
    return entry.type == EntryType::directory ? entry.path + "/" : entry.path;
}

}  // namespace

std::string tar_header(const Entry& entry) {
    UstarHeader header = blank_header(type_flag(entry.type));
    std::string name = stored_name(entry);
    std::string records;
    bool odd = !is_utf8(name) || !is_utf8(entry.link_target);
    if (!is_ascii(name) || !put_name(header, name)) {
        if (odd) records += pax_record("hdrcharset", "BINARY");
        records += pax_record("path", name);
        put_text(header.name, name.substr(0, sizeof header.name));
        std::memset(header.prefix, 0, sizeof header.prefix);
    } else if (odd) {
        records += pax_record("hdrcharset", "BINARY");
    }
    bool link = entry.type == EntryType::symlink || entry.type == EntryType::hardlink;
    if (link) {
        if (!is_ascii(entry.link_target) || entry.link_target.size() > sizeof header.link_name) {
            records += pax_record("linkpath", entry.link_target);
        }
        put_text(header.link_name, entry.link_target);
    }
    put_octal(header.mode, entry.mode & 07777);
    if (!put_octal(header.uid, entry.uid)) records += pax_record("uid", std::to_string(entry.uid));
    if (!put_octal(header.gid, entry.gid)) records += pax_record("gid", std::to_string(entry.gid));
    uint64_t size = entry.type == EntryType::file ? entry.size_bytes : 0;
    if (!put_octal(header.size, size)) records += pax_record("size", std::to_string(size));
    if (entry.mtime < 0 || !put_octal(header.mtime, static_cast<uint64_t>(entry.mtime))) {
        records += pax_record("mtime", std::to_string(entry.mtime));
    }
    if (entry.type == EntryType::char_device || entry.type == EntryType::block_device) {
        if (!put_octal(header.device_major, entry.device_major) ||
            !put_octal(header.device_minor, entry.device_minor)) {
            throw Error(ErrorKind::unsupported,
                        fmt::format("the device number {}:{} of {} does not fit into a tar",
                                    entry.device_major, entry.device_minor, quoted(entry.path)));
        }
    }
    for (const auto& [key, value] : entry.xattrs) {
        if (entry.type != EntryType::hardlink) records += pax_record("SCHILY.xattr." + key, value);
    }
    finish_checksum(header);
    return (records.empty() ? "" : pax_blocks(records)) + to_block(header);
}

}  // namespace slipway::image
