// Reads rpm's database: headers in a table of SQLite, whose library is opened when it is needed.
// Must not: write to the database, or use rpm's own programs: the image's are not ours to run.
#include <fmt/format.h>

#include "../shared_library.hpp"
#include "parse.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

constexpr size_t kEntryBytes = 16;
constexpr uint32_t kMostEntries = 1u << 16;

uint32_t be32(const char* at) {
    const auto* b = reinterpret_cast<const unsigned char*>(at);
    return static_cast<uint32_t>(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

Error damaged_database(const std::string& path, const std::string& detail) {
    return Error(ErrorKind::invalid_image,
                 fmt::format("rpm's database {} in the image cannot be read: {}",
                             slipway::quoted(path), detail));
}

/// The few functions of SQLite that we call. Source: sqlite3.h, whose interface does not change.
struct Sqlite {
    int (*open)(const char*, void**) = nullptr;
    int (*deserialize)(void*, const char*, unsigned char*, long long, long long,
                       unsigned) = nullptr;
    int (*close)(void*) = nullptr;
    int (*prepare_v2)(void*, const char*, int, void**, const char**) = nullptr;
    int (*step)(void*) = nullptr;
    const void* (*column_blob)(void*, int) = nullptr;
    int (*column_bytes)(void*, int) = nullptr;
    int (*finalize)(void*) = nullptr;
    const char* (*errmsg)(void*) = nullptr;
};
constexpr int kRow = 100, kDone = 101;
constexpr unsigned kReadOnly = 4;
constexpr size_t kHeaderBytes = 100, kWriteVersion = 18, kReadVersion = 19;

const Sqlite& sqlite() {
    static const Sqlite loaded = [] {
        const SharedLibrary library(
            {"libsqlite3.so.0"},
            {"SQLite", "rpm's database is read by it",
             "install the package libsqlite3-0 (Debian, Ubuntu) or sqlite-libs (Fedora, RHEL)",
             "install SQLite 3.36 or later"});
        Sqlite functions;
        library.find("sqlite3_open", functions.open);
        library.find("sqlite3_deserialize", functions.deserialize);
        library.find("sqlite3_close", functions.close);
        library.find("sqlite3_prepare_v2", functions.prepare_v2);
        library.find("sqlite3_step", functions.step);
        library.find("sqlite3_column_blob", functions.column_blob);
        library.find("sqlite3_column_bytes", functions.column_bytes);
        library.find("sqlite3_finalize", functions.finalize);
        library.find("sqlite3_errmsg", functions.errmsg);
        return functions;
    }();
    return loaded;
}

/// A header's index and store, every offset checked.
class Header {
 public:
    Header(const std::string& blob, const std::string& path) : blob_(blob), path_(path) {
        if (blob.size() < 8) throw damaged_database(path, "a header is cut off");
        entries_ = be32(blob.data());
        const uint64_t data = be32(blob.data() + 4);
        if (entries_ > kMostEntries || 8 + entries_ * kEntryBytes + data > blob.size())
            throw damaged_database(path, "a header is cut off");
        store_ = 8 + entries_ * kEntryBytes;
    }
    std::string text(uint32_t tag) const {
        const auto at = find(tag);
        if (at == 0) return "";
        const size_t end = blob_.find('\0', at);
        return blob_.substr(at, end == std::string::npos ? end : end - at);
    }
    std::optional<uint32_t> number(uint32_t tag) const {
        const auto at = find(tag);
        if (at == 0 || at + 4 > blob_.size()) return std::nullopt;
        return be32(blob_.data() + at);
    }

 private:
    size_t find(uint32_t tag) const {
        for (size_t i = 0; i < entries_; ++i) {
            const char* entry = blob_.data() + 8 + i * kEntryBytes;
            if (be32(entry) != tag) continue;
            const size_t at = store_ + be32(entry + 8);
            if (at >= blob_.size()) throw damaged_database(path_, "a header leads outside itself");
            return at;
        }
        return 0;
    }

    const std::string& blob_;
    const std::string& path_;
    size_t entries_ = 0, store_ = 0;
};

enum Tag : uint32_t {
    kName = 1000,
    kVersion = 1001,
    kRelease = 1002,
    kEpoch = 1003,
    kVendor = 1011,
    kLicense = 1014,
    kArch = 1022,
    kSourceRpm = 1044
};

}  // namespace

SoftwarePackage parse_rpm_header(const std::string& blob, const std::string& path) {
    const Header header(blob, path);
    SoftwarePackage package;
    package.kind = SoftwarePackage::Kind::rpm;
    package.name = header.text(kName);
    package.version = header.text(kVersion) + "-" + header.text(kRelease);
    if (const auto epoch = header.number(kEpoch))
        package.version = fmt::format("{}:{}", *epoch, package.version);
    package.architecture = header.text(kArch);
    package.supplier = header.text(kVendor);
    package.license = header.text(kLicense);
    package.source = header.text(kSourceRpm);
    package.found_in = path;
    return package;
}

Packages read_rpm_database(std::string database, const std::string& path) {
    const Sqlite& sql = sqlite();
    struct Open {
        const Sqlite& sql;
        void *database = nullptr, *statement = nullptr;
        ~Open() {
            sql.finalize(statement);
            sql.close(database);
        }
    } open{sql};
    if (database.size() < kHeaderBytes) throw damaged_database(path, "it is cut off");
    // It says that a log is to be read beside it; in memory there is none. Source: sqlite.org,
    // c3ref/deserialize.html and fileformat.html.
    database[kWriteVersion] = database[kReadVersion] = 1;
    const auto size = static_cast<long long>(database.size());
    const auto failed = [&] { return damaged_database(path, sql.errmsg(open.database)); };
    if (sql.open(":memory:", &open.database) != 0 ||
        sql.deserialize(open.database, "main", reinterpret_cast<unsigned char*>(database.data()),
                        size, size, kReadOnly) != 0)
        throw failed();
    const auto prepare = [&](const char* text) {
        sql.finalize(open.statement);
        open.statement = nullptr;
        if (sql.prepare_v2(open.database, text, -1, &open.statement, nullptr) != 0) throw failed();
    };
    // A view could give rows without end.
    prepare(
        "SELECT 1 FROM sqlite_master WHERE name = 'Packages' AND type = 'table' AND sql LIKE "
        "'CREATE TABLE%'");
    if (sql.step(open.statement) != kRow)
        throw damaged_database(path, "it has no table of packages");
    prepare("SELECT blob FROM Packages");
    Packages packages;
    int status = 0;
    while ((status = sql.step(open.statement)) == kRow) {
        const auto* data = static_cast<const char*>(sql.column_blob(open.statement, 0));
        const int bytes = sql.column_bytes(open.statement, 0);
        const std::string blob(data != nullptr ? data : "", static_cast<size_t>(bytes));
        SoftwarePackage package = parse_rpm_header(blob, path);
        // rpm keeps the keys that it trusts as packages, too.
        if (!package.name.empty() && package.name != "gpg-pubkey")
            packages.push_back(std::move(package));
    }
    if (status != kDone) throw failed();
    return packages;
}

}  // namespace slipway::image
