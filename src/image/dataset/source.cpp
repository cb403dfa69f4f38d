// Looks at a dataset's files while they pass: sums, and whether to compress them.
// Must not: keep more of a file in memory than its beginning.
#include "source.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"

namespace slipway::image {
namespace {

using namespace std::string_view_literals;

constexpr size_t kHeadBytes = 128 << 10;
constexpr size_t kShortestProbe = 64;  // below, a file's blocks do not matter

/// How formats begin whose contents are compressed, and where.
struct Magic {
    size_t at;
    std::string_view bytes;
};
constexpr Magic kCompressedFormats[] = {
    {0, "\x1f\x8b"sv},            // gzip
    {0, "\x28\xb5\x2f\xfd"sv},    // zstd
    {0, "\xfd\x37zXZ\0"sv},       // xz
    {0, "BZh"sv},                 // bzip2
    {0, "\x04\x22\x4d\x18"sv},    // lz4
    {0, "\xff\xd8\xff"sv},        // JPEG
    {0, "\x89PNG\r\n\x1a\n"sv},   // PNG
    {8, "WEBP"sv},                // WebP, in RIFF
    {4, "ftyp"sv},                // MP4, HEIF, AVIF
    {0, "OggS"sv},                // Ogg
    {0, "fLaC"sv},                // FLAC
    {0, "ID3"sv},                 // MP3
    {0, "\x1a\x45\xdf\xa3"sv},    // Matroska, WebM
    {0, "7z\xbc\xaf\x27\x1c"sv},  // 7z
    {0, "\0\0\0\x0cjP  "sv},      // JPEG 2000
};

bool looks_compressed(const std::string& head) {
    for (const auto& [at, bytes] : kCompressedFormats)
        if (head.size() >= at + bytes.size() && head.compare(at, bytes.size(), bytes) == 0)
            return true;
    return false;
}

std::string description_text(const DatasetDescription& about, const DatasetReport& report) {
    Json json{{"slipway_pack", 1},
              {"files", report.files},
              {"bytes", report.bytes},
              {"sums", kPackSumsPath},
              {"digest", report.sums.text()}};
    const auto add = [&](const char* key, const std::string& value) {
        if (!value.empty()) json[key] = value;
    };
    add("name", about.name);
    add("version", about.version);
    add("license", about.license);
    add("source", about.source);
    add("description", about.description);
    return to_text(json, 2) + "\n";
}

/// A line of sha256sum's output; a name with a newline or backslash is escaped as it does.
std::string sum_line(const std::string& path, const std::string& hex) {
    std::string name;
    for (const char c : path) name += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : std::string(1, c);
    return (name == path ? "" : "\\") + hex + "  " + name + "\n";
}

}  // namespace

bool is_compressed_already(const std::string& head) {
    if (head.size() < kShortestProbe) return false;
    if (looks_compressed(head)) return true;
    std::string packed(ZSTD_compressBound(head.size()), '\0');
    const size_t size = ZSTD_compress(packed.data(), packed.size(), head.data(), head.size(), 1);
    return ZSTD_isError(size) != 0 || size >= head.size() - head.size() / 32;
}

bool natural_less(const std::string& a, const std::string& b) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        if (!is_digit(a[i]) || !is_digit(b[j])) {
            if (a[i] != b[j])
                return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
            ++i, ++j;
            continue;
        }
        const auto number = [&](const std::string& text, size_t& at) {
            while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
            const size_t begin = at;
            while (at < text.size() && is_digit(text[at])) ++at;
            return std::string_view(text).substr(begin, at - begin);
        };
        const auto x = number(a, i), y = number(b, j);
        if (x.size() != y.size()) return x.size() < y.size();
        if (x != y) return x < y;
    }
    if (i == a.size() && j == b.size()) return a < b;  // "01" and "1": some order, always the same
    return i == a.size();
}

DatasetSource::DatasetSource(Parts parts, DatasetDescription about, DatasetReport& report)
    : parts_(std::move(parts)), about_(std::move(about)), report_(report) {}

bool DatasetSource::next(Entry& entry) {
    end_file();
    return next_of_parts(entry) || next_of_ours(entry);
}

bool DatasetSource::next_of_parts(Entry& entry) {
    for (; part_ < parts_.size(); ++part_) {
        while (parts_[part_]->next(entry)) {
            const std::string ours(parent_path(kPackSumsPath));
            if (entry.path == ours || entry.path.starts_with(ours + "/"))
                continue;  // an old pack's
            entry.uid = entry.gid = 0;
            newest_ = std::max(newest_, entry.mtime);
            if (entry.type == EntryType::file) begin_file(entry);
            if (entry.type == EntryType::hardlink) {
                const auto first = sums_.find(entry.link_target);
                if (first != sums_.end()) sums_[entry.path] = first->second;
            }
            return true;
        }
        parts_[part_].reset();  // what it held is needed no more
    }
    return false;
}

void DatasetSource::begin_file(Entry& entry) {
    path_ = entry.path;
    hash_ = Sha256();
    head_.resize(std::min<uint64_t>(kHeadBytes, entry.size_bytes));
    head_at_ = 0;
    size_t got = 0;
    while (got < head_.size()) {
        const size_t n = parts_[part_]->read(head_.data() + got, head_.size() - got);
        if (n == 0) break;
        got += n;
    }
    head_.resize(got);
    hash_.update(head_);
    entry.stored_raw = is_compressed_already(head_);
    ++report_.files;
    report_.bytes += entry.size_bytes;
    if (entry.stored_raw) ++report_.raw_files;
}

void DatasetSource::end_file() {
    if (path_.empty()) return;
    sums_[path_] = hash_.finish().hex();
    path_.clear();
}

size_t DatasetSource::read(void* data, size_t size_bytes) {
    if (!ours_.empty()) {
        const std::string& text = ours_[step_ - 2].second;
        const size_t n = std::min(size_bytes, text.size() - head_at_);
        std::memcpy(data, text.data() + head_at_, n);
        head_at_ += n;
        return n;
    }
    if (head_at_ < head_.size()) {
        const size_t n = std::min(size_bytes, head_.size() - head_at_);
        std::memcpy(data, head_.data() + head_at_, n);
        head_at_ += n;
        return n;
    }
    const size_t n = parts_[part_]->read(data, size_bytes);
    hash_.update(data, n);
    return n;
}

bool DatasetSource::next_of_ours(Entry& entry) {
    if (ours_.empty()) {
        std::string list;
        for (const auto& [path, hex] : sums_) list += sum_line(path, hex);
        report_.sums = sha256(list);
        ours_ = {{kPackSumsPath, list}, {kPackDescriptionPath, description_text(about_, report_)}};
    }
    entry = Entry{};
    entry.mtime = newest_;
    head_at_ = 0;
    if (step_ == 0) {
        entry.type = EntryType::directory;
        entry.path = std::string(parent_path(kPackSumsPath));
        entry.mode = 0755;
    } else if (step_ <= ours_.size()) {
        entry.path = ours_[step_ - 1].first;
        entry.size_bytes = ours_[step_ - 1].second.size();
        entry.mode = 0644;
    } else {
        return false;
    }
    ++step_;
    return true;
}

}  // namespace slipway::image
